//! `kubelet get`: prints objects of the running kubelet as a table, JSON, YAML or names.

mod resource;
mod tables;

use std::process::ExitCode;

use ::client::percent_encoded;
use serde::Serialize as _;
use serde_json::{Value, json};

use super::args::{Get, Output};
use super::client::Client;
use super::print::{note, out, yaml};
use resource::EVENTS;
pub use resource::{PODS, ResourceType, full_name, split};

const JSON: &str = "application/json";
/// Annotation of the Node that lists manifest problems.
const PROBLEMS: &str = "coracle.dev/problems";
/// API path of the Node.
const NODES: &str = "/api/v1/nodes";

/// The objects to show of one resource type: all, or those with these names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    named: ResourceType,
    names: Vec<String>,
}

/// Runs the subcommand.
pub async fn run(client: &Client, get: &Get) -> anyhow::Result<ExitCode> {
    let wanted = wanted(&get.resource, &get.names)?;
    anyhow::ensure!(
        !get.all_namespaces || wanted.iter().all(|wanted| wanted.names.is_empty()),
        "names cannot be combined with -A: leave out -A"
    );
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for mut wanted in wanted {
        let names = std::mem::take(&mut wanted.names);
        let all = names.is_empty();
        for name in names {
            match full_name(client, wanted.named, &get.place.namespace, &name).await {
                Ok(name) => wanted.names.push(name),
                Err(error) if error.is_not_found() => missing.push(error),
                Err(error) => return Err(error.into()),
            }
        }
        if all || !wanted.names.is_empty() {
            found.push(wanted);
        }
    }
    match get.output {
        Some(Output::Json | Output::Yaml | Output::Name) => objects(client, get, &found).await?,
        None | Some(Output::Wide) => tables::run(client, get, &found).await?,
    }
    for error in &missing {
        note(error);
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses the arguments, such as `pods`, `pods,cm`, `pod a b` and `pod/a cm/b`.
fn wanted(resource: &str, names: &[String]) -> anyhow::Result<Vec<Selection>> {
    let find = |text: &str| {
        ResourceType::find(text).ok_or_else(|| {
            anyhow::anyhow!(
                "unknown resource \"{text}\": use pods, nodes, events, configmaps, secrets, services, \
                 endpointslices or namespaces"
            )
        })
    };
    if !resource.contains('/') {
        let names = names.to_vec();
        return resource
            .split(',')
            .map(|text| Ok(Selection { named: find(text)?, names: names.clone() }))
            .collect();
    }
    let mut wanted: Vec<Selection> = Vec::new();
    for pair in std::iter::once(resource).chain(names.iter().map(String::as_str)) {
        let (text, Some(name)) = split(pair) else {
            anyhow::bail!(
                "\"{pair}\" lacks a resource type: write every argument as TYPE/NAME, like {resource}"
            );
        };
        let named = find(text)?;
        match wanted.iter_mut().find(|wanted| wanted.named == named) {
            Some(known) => known.names.push(name.to_owned()),
            None => wanted.push(Selection { named, names: vec![name.to_owned()] }),
        }
    }
    Ok(wanted)
}

impl Selection {
    /// Whether manifest problems and node-name conflicts are shown: only for all pods and for the Node.
    fn shows_problems(&self) -> bool {
        self.names.is_empty() && (self.named == PODS || self.named.path(None) == NODES)
    }

    /// The API paths to request.
    fn paths(&self, get: &Get) -> Vec<String> {
        let namespace = (!get.all_namespaces).then_some(get.place.namespace.as_str());
        let list = self.named.path(namespace);
        if self.names.is_empty() {
            return vec![format!("{list}{}", query(get, self.named))];
        }
        self.names.iter().map(|name| format!("{list}/{}", percent_encoded(name))).collect()
    }
}

/// Prints the manifest problems and the node-name conflict of this node.
async fn warn(client: &Client) {
    let Ok(nodes) = client.json(NODES, JSON).await else { return };
    for node in nodes.get("items").and_then(Value::as_array).into_iter().flatten() {
        let annotation = node.pointer("/metadata/annotations").and_then(|all| all.get(PROBLEMS));
        let problems = annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        let problems: Vec<String> = problems.unwrap_or_default();
        for problem in problems {
            note(format_args!("warning: {problem}"));
        }
    }
}

/// The sort key of an event: the last time it occurred. RFC 3339 times in UTC sort chronologically.
fn by_time(event: &Value) -> String {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp"];
    let mut times = times.iter().filter_map(|path| event.pointer(path)?.as_str());
    let time = times.next().or_else(|| event.pointer("/metadata/creationTimestamp")?.as_str());
    time.unwrap_or_default().to_owned()
}

fn query(get: &Get, named: ResourceType) -> String {
    let mut parts = Vec::new();
    if named == EVENTS && matches!(get.output, None | Some(Output::Wide)) {
        // Without it a table row has only metadata, and no timestamp to sort by.
        parts.push("includeObject=Object".to_owned());
    }
    if let Some(selector) = &get.selector {
        parts.push(format!("labelSelector={}", percent_encoded(selector)));
    }
    if let Some(selector) = &get.field_selector {
        parts.push(format!("fieldSelector={}", percent_encoded(selector)));
    }
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// Adds the list's apiVersion and kind to an item, because servers omit both in list items.
fn with_type(mut item: Value, list: &Value) -> Value {
    let text = |field: &str| list.get(field).and_then(Value::as_str).unwrap_or_default();
    if let Some(object) = item.as_object_mut() {
        let kind = text("kind").trim_end_matches("List");
        object.entry("apiVersion").or_insert_with(|| text("apiVersion").into());
        object.entry("kind").or_insert_with(|| kind.into());
    }
    item
}

async fn objects(client: &Client, get: &Get, wanted: &[Selection]) -> anyhow::Result<()> {
    let mut names = String::new();
    let mut items = Vec::new();
    let mut single = wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>() == 1;
    for wanted in wanted {
        for path in wanted.paths(get) {
            let mut answer = client.json(&path, JSON).await?;
            let mut answered = match answer.get_mut("items").map(Value::take) {
                Some(Value::Array(list)) => {
                    single = false;
                    list.into_iter().map(|item| with_type(item, &answer)).collect()
                }
                _ => vec![answer],
            };
            if wanted.named == EVENTS {
                answered.sort_by_cached_key(by_time);
            }
            if get.output != Some(Output::Name) {
                items.append(&mut answered);
                continue;
            }
            for item in &answered {
                let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                names.push_str(&format!("{}/{name}\n", wanted.named.singular));
            }
        }
    }
    if wanted.is_empty() || get.output == Some(Output::Name) {
        return out(names.as_bytes());
    }
    let document = match items.pop() {
        Some(item) if single => item,
        last => {
            items.extend(last);
            json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
        }
    };
    let document = yaml::sorted(document);
    if get.output == Some(Output::Yaml) {
        return out(yaml::document(&document).as_bytes());
    }
    let four_spaces = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut text = Vec::new();
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, four_spaces))?;
    text.push(b'\n');
    // The JSON writer escapes only C0 control characters; the others can occur only inside strings.
    let text = String::from_utf8_lossy(&text);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() && c != '\n' => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    out(escaped.as_bytes())
}

#[cfg(test)]
mod tests {
    //! Parsing of resource arguments.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::{wanted, with_type};

    fn read(resource: &str, names: &[&str]) -> Result<String, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let wanted = wanted(resource, &names).map_err(|error| error.to_string())?;
        let one = |wanted: &super::Selection| format!("{} {:?}", wanted.named.plural, wanted.names);
        Ok(wanted.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn resource_names_and_aliases_are_accepted() {
        for (text, expected) in [
            ("pods", "pods []"),
            ("po", "pods []"),
            ("Pod", "pods []"),
            ("no", "nodes []"),
            ("ev", "events []"),
            ("cm,secret", "configmaps [] secrets []"),
            ("svc,endpointslice", "services [] endpointslices []"),
        ] {
            assert_eq!(read(text, &[]).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn object_names_are_accepted_after_a_space_or_slash() {
        assert_eq!(read("pod", &["a", "b"]).unwrap(), r#"pods ["a", "b"]"#);
        assert_eq!(read("pod/a", &["cm/c", "po/b"]).unwrap(), r#"pods ["a", "b"] configmaps ["c"]"#);
        assert!(read("pod/a", &["b"]).unwrap_err().contains("\"b\" lacks a resource type"));
        assert!(read("deployments", &[]).unwrap_err().starts_with("unknown resource \"deployments\""));
    }

    #[test]
    fn items_get_the_type_that_their_list_names() {
        let list = json!({"apiVersion": "v1", "kind": "PodList"});
        let item = with_type(json!({"metadata": {"name": "a"}}), &list);
        assert_eq!(item, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
        let own = json!({"apiVersion": "example.com/v1", "kind": "Ship"});
        assert_eq!(with_type(own.clone(), &list), own);
    }
}
