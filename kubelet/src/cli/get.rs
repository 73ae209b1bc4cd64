//! `kubelet get`: objects of the running kubelet, as a table or as they are.

use std::io::Write as _;
use std::process::ExitCode;

use http_body_util::BodyExt as _;
use serde::Serialize as _;
use serde_json::{Value, json};

use super::args::{Get, Output};
use super::client::{Client, Error, escape};
use super::print::{table, yaml};

const JSON: &str = "application/json";
/// The annotation of the node that holds what its sources refuse.
const PROBLEMS: &str = "coracle.dev/problems";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A resource as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name in paths.
    pub plural: &'static str,
    /// Name of one.
    pub singular: &'static str,
    /// Lies in a namespace.
    pub namespaced: bool,
}

/// Pods.
pub const PODS: Named = Named { plural: "pods", singular: "pod", namespaced: true };

const RESOURCES: &[(Named, &[&str])] = &[
    (PODS, &["po"]),
    (Named { plural: "nodes", singular: "node", namespaced: false }, &["no"]),
    (Named { plural: "events", singular: "event", namespaced: true }, &["ev"]),
    (Named { plural: "configmaps", singular: "configmap", namespaced: true }, &["cm"]),
    (Named { plural: "secrets", singular: "secret", namespaced: true }, &[]),
];

impl Named {
    /// Finds a resource by any of its names; `None` for one that a node does not have.
    pub fn find(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        RESOURCES
            .iter()
            .find(|(named, short)| {
                named.plural == text || named.singular == text || short.contains(&text.as_str())
            })
            .map(|(named, _)| *named)
    }

    /// The path of its objects, `None` for all namespaces.
    pub fn path(self, namespace: Option<&str>) -> String {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("/api/v1/namespaces/{}/{}", escape(namespace), self.plural),
            None => format!("/api/v1/{}", self.plural),
        }
    }
}

/// Runs the verb.
pub async fn run(client: &Client, get: &Get) -> anyhow::Result<ExitCode> {
    let (resource, first) = split(&get.resource);
    let named = Named::find(resource).ok_or_else(|| {
        anyhow::anyhow!("a node has no \"{resource}\": there are pods, nodes, events, configmaps and secrets")
    })?;
    let names: Vec<&str> = first.into_iter().chain(get.names.iter().map(String::as_str)).collect();
    anyhow::ensure!(
        names.is_empty() || !get.all_namespaces,
        "a name is looked for in one namespace: leave out -A"
    );
    let namespace = (!get.all_namespaces).then_some(get.place.namespace.as_str());
    let mut missing = Vec::new();
    let mut paths = Vec::new();
    if names.is_empty() {
        paths.push(format!("{}{}", named.path(namespace), query(get)));
    }
    for name in names {
        match full_name(client, named, &get.place.namespace, name).await {
            Ok(name) => paths.push(format!("{}/{}", named.path(namespace), escape(&name))),
            Err(error) if error.is_not_found() => missing.push(error),
            Err(error) => return Err(error.into()),
        }
    }
    match get.output {
        Some(Output::Json | Output::Yaml | Output::Name) => objects(client, get, named, &paths).await?,
        None | Some(Output::Wide) => tables(client, get, named, &paths).await?,
    }
    for error in &missing {
        eprintln!("{error}");
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says what the sources of this node refuse, after what they gave.
async fn warn(client: &Client) {
    let Ok(nodes) = client.json("/api/v1/nodes", JSON).await else { return };
    for node in nodes.get("items").and_then(Value::as_array).into_iter().flatten() {
        let annotation = node.pointer("/metadata/annotations").and_then(|all| all.get(PROBLEMS));
        let problems = annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        let problems: Vec<String> = problems.unwrap_or_default();
        for problem in problems {
            eprintln!("warning: {problem}");
        }
    }
}

/// `pod/web` is a resource and a name.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((resource, name)) => (resource, Some(name)),
        None => (text, None),
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

/// The name of an object; a pod may be given by the name in its manifest, without the node's.
///
/// # Errors
/// When there is no such object.
pub async fn full_name(client: &Client, named: Named, namespace: &str, name: &str) -> Result<String, Error> {
    let path = |name: &str| format!("{}/{}", named.path(Some(namespace)), escape(name));
    let not_found = match client.get(&path(name), JSON).await {
        Ok(_) => return Ok(name.to_owned()),
        Err(error) if error.is_not_found() && named == PODS => error,
        Err(error) => return Err(error),
    };
    let nodes = client.json("/api/v1/nodes", JSON).await?;
    let nodes = nodes.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for node in nodes {
        let on_node =
            format!("{name}-{}", node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
        if client.get(&path(&on_node), JSON).await.is_ok() {
            return Ok(on_node);
        }
    }
    Err(not_found)
}

async fn objects(client: &Client, get: &Get, named: Named, paths: &[String]) -> anyhow::Result<()> {
    let mut items = Vec::new();
    let mut single = paths.len() == 1 && !get.names.is_empty() | get.resource.contains('/');
    for path in paths {
        let mut answer = client.json(path, JSON).await?;
        match answer.get_mut("items").and_then(Value::as_array_mut) {
            Some(list) => {
                single = false;
                items.append(list);
            }
            None => items.push(answer),
        }
    }
    let mut out = std::io::stdout().lock();
    if get.output == Some(Output::Name) {
        for item in &items {
            let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            writeln!(out, "{}/{name}", named.singular)?;
        }
        return Ok(());
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
        out.write_all(yaml::document(&document).as_bytes())?;
    } else {
        let four_spaces = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        document.serialize(&mut serde_json::Serializer::with_formatter(&mut out, four_spaces))?;
        writeln!(out)?;
    }
    Ok(())
}

async fn tables(client: &Client, get: &Get, named: Named, paths: &[String]) -> anyhow::Result<()> {
    let mut printer = Printer::new(get, named);
    let mut rows = Vec::new();
    let mut revision = String::from("0");
    for path in paths {
        let answer = client.json(path, TABLE).await?;
        revision =
            answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0").to_owned();
        rows.extend(printer.rows(&answer));
    }
    if !rows.is_empty() {
        if !get.no_headers {
            rows.insert(0, printer.head());
        }
        print!("{}", printer.columns.lines(&rows));
    } else if !paths.is_empty() && !get.watch {
        match (named.namespaced, get.all_namespaces) {
            (true, false) => eprintln!("No resources found in {} namespace.", get.place.namespace),
            _ => eprintln!("No resources found"),
        }
    }
    warn(client).await;
    match (get.watch, paths) {
        (true, [path]) => watch(client, &mut printer, path, &revision).await,
        (true, _) => anyhow::bail!("-w watches one object or all of them, not several"),
        (false, _) => Ok(()),
    }
}

async fn watch(client: &Client, printer: &mut Printer<'_>, path: &str, revision: &str) -> anyhow::Result<()> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true&resourceVersion={revision}");
    let mut body = client.get(&path, TABLE).await?.into_body();
    let mut pending = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line)?;
            let object = event.get("object").unwrap_or(&Value::Null);
            if event.get("type").and_then(Value::as_str) == Some("ERROR") {
                let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
                anyhow::bail!("the watch ended: {message}");
            }
            let is_first = printer.heads.is_empty();
            let mut rows = printer.rows(object);
            if is_first && !printer.get.no_headers {
                rows.insert(0, printer.head());
            }
            print!("{}", printer.columns.lines(&rows));
            std::io::stdout().flush()?;
        }
    }
    Ok(())
}

/// Tables of one resource, told by the first of them how to look.
struct Printer<'a> {
    get: &'a Get,
    with_namespace: bool,
    /// Columns that are shown: their place in a row and their head.
    heads: Vec<(usize, String)>,
    columns: table::Columns,
}

impl<'a> Printer<'a> {
    fn new(get: &'a Get, named: Named) -> Self {
        let with_namespace = get.all_namespaces && named.namespaced;
        Self { get, with_namespace, heads: Vec::new(), columns: table::Columns::default() }
    }

    fn head(&self) -> Vec<String> {
        let namespace = self.with_namespace.then(|| "NAMESPACE".to_owned());
        let labels = self.get.show_labels.then(|| "LABELS".to_owned());
        namespace
            .into_iter()
            .chain(self.heads.iter().map(|(_, head)| head.to_uppercase()))
            .chain(labels)
            .collect()
    }

    fn rows(&mut self, answer: &Value) -> Vec<Vec<String>> {
        let list = |value: &'_ Value, name: &str| {
            value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let wide = self.get.output == Some(Output::Wide);
        if self.heads.is_empty() {
            let heads = list(answer, "columnDefinitions").into_iter().enumerate();
            let shown = heads.filter(|(_, head)| wide || head["priority"].as_i64().unwrap_or_default() == 0);
            self.heads = shown.map(|(column, head)| (column, cell(&head["name"]))).collect();
        }
        let row = |object: Value| {
            let all = list(&object, "cells");
            let namespace = object.pointer("/object/metadata/namespace").map(cell);
            let namespace = namespace.filter(|_| self.with_namespace);
            let cells = self.heads.iter().filter_map(|(column, _)| all.get(*column)).map(cell);
            let labels = self.get.show_labels.then(|| labels(&object));
            namespace.into_iter().chain(cells).chain(labels).collect()
        };
        list(answer, "rows").into_iter().map(row).collect()
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', "\\n"),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}

fn labels(row: &Value) -> String {
    let labels = row.pointer("/object/metadata/labels").and_then(Value::as_object);
    let pairs: Vec<String> =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", cell(value))).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}
