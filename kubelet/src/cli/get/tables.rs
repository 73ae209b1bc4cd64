//! Objects as tables, once or as they change.

use std::collections::BTreeMap;

use http_body_util::BodyExt as _;
use serde_json::Value;

use super::resource::Named;
use super::{Wanted, warn};
use crate::cli::args::{Get, Output};
use crate::cli::client::Client;
use crate::cli::print::{out, say, table};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Prints a table for each resource.
pub(super) async fn run(client: &Client, get: &Get, wanted: &[Wanted]) -> anyhow::Result<()> {
    if get.watch {
        let paths: Vec<String> = wanted.iter().flat_map(|wanted| wanted.paths(get)).collect();
        let ([wanted], [path]) = (wanted, &paths[..]) else {
            anyhow::bail!("-w watches one object or all of one resource, not several");
        };
        let mut printer = Printer::new(get, wanted.named, false);
        return follow(client, &mut printer, path, wanted.is_all_pods()).await;
    }
    let mut tables = Vec::new();
    for one in wanted {
        let mut printer = Printer::new(get, one.named, wanted.len() > 1);
        let mut rows = Vec::new();
        for path in one.paths(get) {
            rows.extend(printer.rows(&client.json(&path, TABLE).await?));
        }
        if !rows.is_empty() {
            tables.push(printer.table(rows));
        }
    }
    out(tables.join("\n").as_bytes())?;
    if tables.is_empty() && !wanted.is_empty() {
        match !get.all_namespaces && wanted.iter().all(|wanted| wanted.named.namespaced) {
            true => say(format_args!("No resources found in {} namespace.", get.place.namespace)),
            false => say("No resources found"),
        }
    }
    if wanted.iter().any(Wanted::is_all_pods) {
        warn(client).await;
    }
    Ok(())
}

/// Prints the table, and a line for each change for as long as the kubelet runs.
async fn follow(client: &Client, printer: &mut Printer<'_>, path: &str, whole: bool) -> anyhow::Result<()> {
    let answer = client.json(path, TABLE).await?;
    let revision = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
    let rows = printer.rows(&answer);
    printer.make_room();
    let mut last = Last::default();
    let rows = last.news(&answer, rows);
    let mut is_headed = !rows.is_empty();
    if is_headed {
        out(printer.table(rows).as_bytes())?;
    }
    if whole {
        warn(client).await;
    }
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
            let rows = last.news(object, printer.rows(object));
            if rows.is_empty() {
                continue;
            }
            let lines = if is_headed { printer.columns.lines(&rows) } else { printer.table(rows) };
            is_headed = true;
            out(lines.as_bytes())?;
        }
    }
    Ok(())
}

/// The line of each object that was printed last: most changes of an object change nothing in a table.
#[derive(Default)]
struct Last {
    /// By namespace and name; forgotten when there are more than [`LINES`].
    lines: BTreeMap<(String, String), Vec<String>>,
}

/// Lines remembered, far more than a node has of anything but events, each of which is a line of its own.
const LINES: usize = 1000;

impl Last {
    /// The rows of a table that are not those printed last of their objects.
    fn news(&mut self, table: &Value, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
        let objects = table.get("rows").and_then(Value::as_array).into_iter().flatten();
        let mut objects = objects.map(|row| {
            let text = |name: &str| {
                let metadata = row.pointer("/object/metadata").and_then(|metadata| metadata.get(name));
                metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            (text("namespace"), text("name"))
        });
        rows.retain(|row| {
            if self.lines.len() >= LINES {
                self.lines.clear();
            }
            let object = objects.next().unwrap_or_default();
            self.lines.insert(object, row.clone()).as_ref() != Some(row)
        });
        rows
    }
}

/// Tables of one resource, told by the first of them how to look.
struct Printer<'a> {
    get: &'a Get,
    with_namespace: bool,
    /// Stands before names where several resources are shown: `pod/`.
    prefix: String,
    /// Columns that are shown: their place in a row and their head.
    heads: Vec<(usize, String)>,
    columns: table::Columns,
}

impl<'a> Printer<'a> {
    fn new(get: &'a Get, named: Named, prefixed: bool) -> Self {
        let with_namespace = get.all_namespaces && named.namespaced;
        let prefix = if prefixed { format!("{}/", named.singular) } else { String::new() };
        Self { get, with_namespace, prefix, heads: Vec::new(), columns: table::Columns::default() }
    }

    /// Makes the columns as wide as most of what will come, so that lines printed later stand under earlier ones.
    fn make_room(&mut self) {
        let namespace = self.with_namespace.then_some(11);
        let room = |head: &str| match head {
            "Name" => 32,
            "Status" => "ContainerCreating".len(),
            "Restarts" => "10 (10m ago)".len(),
            _ => 0,
        };
        let widths = namespace.into_iter().chain(self.heads.iter().map(|(_, head)| room(head)));
        self.columns = table::Columns::at_least(widths.collect());
    }

    /// The rows under their heads.
    fn table(&mut self, mut rows: Vec<Vec<String>>) -> String {
        if !self.get.no_headers {
            rows.insert(0, self.head());
        }
        self.columns.lines(&rows)
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
            let cells = self.heads.iter().filter_map(|(column, head)| {
                let prefix = if head == "Name" { self.prefix.as_str() } else { "" };
                Some(format!("{prefix}{}", cell(all.get(*column)?)))
            });
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

#[cfg(test)]
mod tests;
