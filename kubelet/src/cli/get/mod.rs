//! `kubelet get`: objects of the running kubelet, as a table or as they are.

mod resource;
mod tables;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use serde::Serialize as _;
use serde_json::{Value, json};

use super::args::{Get, Output};
use super::client::{Client, escape};
use super::print::{out, say, yaml};
pub use resource::{Named, PODS, full_name, split};

const JSON: &str = "application/json";
/// The annotation of the node that holds what its sources refuse.
const PROBLEMS: &str = "coracle.dev/problems";

/// Objects of one resource that are to be shown: all of them, or those of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    named: Named,
    names: Vec<String>,
}

/// Runs the verb.
pub async fn run(client: &Client, get: &Get) -> anyhow::Result<ExitCode> {
    let wanted = wanted(&get.resource, &get.names)?;
    anyhow::ensure!(
        !get.all_namespaces || wanted.iter().all(|wanted| wanted.names.is_empty()),
        "a name is looked for in one namespace: leave out -A"
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
        say(error);
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads `pods`, `pods,cm`, `pod a b` and `pod/a cm/b`.
fn wanted(resource: &str, names: &[String]) -> anyhow::Result<Vec<Wanted>> {
    let find = |text: &str| {
        Named::find(text).ok_or_else(|| {
            anyhow::anyhow!("a node has no \"{text}\": there are pods, nodes, events, configmaps and secrets")
        })
    };
    if !resource.contains('/') {
        let names = names.to_vec();
        return resource
            .split(',')
            .map(|text| Ok(Wanted { named: find(text)?, names: names.clone() }))
            .collect();
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for pair in std::iter::once(resource).chain(names.iter().map(String::as_str)) {
        let (text, Some(name)) = split(pair) else {
            anyhow::bail!("\"{pair}\" has no resource before it, write {resource} and the like for all");
        };
        let named = find(text)?;
        match wanted.iter_mut().find(|wanted| wanted.named == named) {
            Some(known) => known.names.push(name.to_owned()),
            None => wanted.push(Wanted { named, names: vec![name.to_owned()] }),
        }
    }
    Ok(wanted)
}

impl Wanted {
    /// True for the question what runs here, whose answer is not whole without what was refused.
    fn is_all_pods(&self) -> bool {
        self.named == PODS && self.names.is_empty()
    }

    /// The paths that hold what is wanted.
    fn paths(&self, get: &Get) -> Vec<String> {
        let namespace = (!get.all_namespaces).then_some(get.place.namespace.as_str());
        let list = self.named.path(namespace);
        if self.names.is_empty() {
            return vec![format!("{list}{}", query(get))];
        }
        self.names.iter().map(|name| format!("{list}/{}", escape(name))).collect()
    }
}

/// Says what the sources of this node refuse, after what they gave.
async fn warn(client: &Client) {
    let Ok(nodes) = client.json("/api/v1/nodes", JSON).await else { return };
    for node in nodes.get("items").and_then(Value::as_array).into_iter().flatten() {
        let annotation = node.pointer("/metadata/annotations").and_then(|all| all.get(PROBLEMS));
        let problems = annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        let problems: Vec<String> = problems.unwrap_or_default();
        for problem in problems {
            say(format_args!("warning: {problem}"));
        }
    }
}

fn query(get: &Get) -> String {
    let mut parts = Vec::new();
    if let Some(selector) = &get.selector {
        parts.push(format!("labelSelector={}", escape(selector)));
    }
    if let Some(selector) = &get.field_selector {
        parts.push(format!("fieldSelector={}", escape(selector)));
    }
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

async fn objects(client: &Client, get: &Get, wanted: &[Wanted]) -> anyhow::Result<()> {
    let mut names = String::new();
    let mut items = Vec::new();
    let mut single = wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>() == 1;
    for wanted in wanted {
        for path in wanted.paths(get) {
            let mut answer = client.json(&path, JSON).await?;
            let mut answered = match answer.get_mut("items").map(Value::take) {
                Some(Value::Array(list)) => {
                    single = false;
                    list
                }
                _ => vec![answer],
            };
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
    out(&text)
}
