//! Prints objects as tables, once or with `--watch`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::resource::{EVENTS, ResourceType};
use super::{Selection, by_time, warn};
use crate::cli::args::{Get, Output};
use crate::cli::client::Client;
use crate::cli::print::{Columns, note, out, visible};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Prints one table per resource type.
pub(super) async fn run(client: &Client, get: &Get, wanted: &[Selection]) -> anyhow::Result<()> {
    if get.watch {
        let paths: Vec<String> = wanted.iter().flat_map(|wanted| wanted.paths(get)).collect();
        let ([wanted], [path]) = (wanted, &paths[..]) else {
            anyhow::bail!("-w watches one object or all of one resource, not several");
        };
        let mut printer = Printer::new(get, wanted.named, false);
        return follow(client, &mut printer, path, wanted).await;
    }
    let mut tables = Vec::new();
    for one in wanted {
        let mut printer = Printer::new(get, one.named, wanted.len() > 1);
        let mut rows = Vec::new();
        for path in one.paths(get) {
            let mut answer = client.json(&path, TABLE).await?;
            sort_events(one.named, &mut answer);
            rows.extend(printer.rows(&answer));
        }
        if !rows.is_empty() {
            tables.push(printer.table(rows));
        }
    }
    out(tables.join("\n").as_bytes())?;
    if tables.is_empty() && !wanted.is_empty() {
        match !get.all_namespaces && wanted.iter().all(|wanted| wanted.named.namespaced) {
            true => note(format_args!("No resources found in {} namespace.", get.place.namespace)),
            false => note("No resources found"),
        }
    }
    if wanted.iter().any(Selection::shows_problems) {
        warn(client).await;
    }
    Ok(())
}

/// Sorts rows of events by time, newest last.
fn sort_events(named: ResourceType, answer: &mut Value) {
    if named == EVENTS
        && let Some(rows) = answer.get_mut("rows").and_then(Value::as_array_mut)
    {
        rows.sort_by_cached_key(|row| by_time(row.get("object").unwrap_or(&Value::Null)));
    }
}

/// Prints the table, then one line per change until the watch ends.
async fn follow(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    wanted: &Selection,
) -> anyhow::Result<()> {
    let mut answer = client.json(path, TABLE).await?;
    sort_events(wanted.named, &mut answer);
    let revision = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
    let rows = printer.rows(&answer);
    printer.make_room();
    let mut last = Last::default();
    let rows = last.changed_rows(&answer, rows);
    let mut is_headed = !rows.is_empty();
    if is_headed {
        out(printer.table(rows).as_bytes())?;
    }
    if wanted.shows_problems() {
        warn(client).await;
    }
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&path, TABLE).await?;
    while let Some((kind, object)) = watch.next().await? {
        if kind == "ERROR" {
            let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
            anyhow::bail!("the watch ended: {message}");
        }
        let rows = last.changed_rows(&object, printer.rows(&object));
        if rows.is_empty() {
            continue;
        }
        let lines = if is_headed { printer.columns.lines(&rows) } else { printer.table(rows) };
        is_headed = true;
        out(lines.as_bytes())?;
    }
    Ok(())
}

/// The last printed line of each object. It suppresses changes that the table does not show.
#[derive(Default)]
struct Last {
    /// The lines by namespace and name. They are cleared when there are [`LINES`] of them.
    lines: BTreeMap<(String, String), Vec<String>>,
}

/// Maximum number of lines that are kept. Only events can exceed it, and each event is printed once.
const LINES: usize = 1000;

impl Last {
    /// Returns the rows that differ from the last printed row of their object.
    fn changed_rows(&mut self, table: &Value, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
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

/// Prints tables of one resource type. The first table defines the columns.
struct Printer<'a> {
    get: &'a Get,
    with_namespace: bool,
    /// Prefix of names, such as `pod/`, if several resource types are shown.
    prefix: String,
    /// The columns that are shown: index in a row, and heading.
    heads: Vec<(usize, String)>,
    columns: Columns,
}

impl<'a> Printer<'a> {
    fn new(get: &'a Get, named: ResourceType, prefixed: bool) -> Self {
        let with_namespace = get.all_namespaces && named.namespaced;
        let prefix = if prefixed { format!("{}/", named.singular) } else { String::new() };
        Self { get, with_namespace, prefix, heads: Vec::new(), columns: Columns::default() }
    }

    /// Widens the columns for values that usually come later, so that the lines of a watch stay aligned.
    fn make_room(&mut self) {
        let namespace = self.with_namespace.then_some(11);
        let room = |head: &str| match head {
            "Name" => 32,
            "Status" => "ContainerCreating".len(),
            "Restarts" => "10 (10m ago)".len(),
            _ => 0,
        };
        let widths = namespace.into_iter().chain(self.heads.iter().map(|(_, head)| room(head)));
        self.columns = Columns::at_least(widths.collect());
    }

    /// Formats the rows with their header line.
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
        Value::String(text) => visible(text).replace('\n', "\\n"),
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
mod tests {
    //! Tests of output lines of a watch.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::{Last, Printer};
    use crate::cli::args::{Cli, Get, Verb};
    use crate::cli::get::PODS;

    fn get() -> Get {
        match Cli::parse_from(["kubelet", "get", "pods", "-w"]).verb {
            Verb::Get(get) => get,
            other => panic!("{other:?}"),
        }
    }

    /// Returns a table with columns `NAME STATUS`.
    fn table(rows: &[&str]) -> Value {
        let row = |row: &&str| {
            let cells: Vec<&str> = row.split(' ').collect();
            json!({"cells": cells, "object": {"metadata": {"namespace": "default", "name": cells[0]}}})
        };
        let heads = ["Name", "Status"].map(|name| json!({"name": name, "priority": 0}));
        json!({"columnDefinitions": heads, "rows": rows.iter().map(row).collect::<Vec<_>>()})
    }

    #[test]
    fn watch_prints_unchanged_rows_once_per_object() {
        let get = get();
        let mut printer = Printer::new(&get, PODS, false);
        let mut last = Last::default();
        let mut changed_rows = |rows: &[&str]| -> Vec<String> {
            let table = table(rows);
            last.changed_rows(&table, printer.rows(&table)).iter().map(|row| row.join(" ")).collect()
        };
        assert_eq!(changed_rows(&["a Running", "b Running"]), ["a Running", "b Running"]);
        assert_eq!(changed_rows(&["a Running"]), [""; 0]);
        assert_eq!(changed_rows(&["a Terminating"]), ["a Terminating"]);
        assert_eq!(changed_rows(&["a Running"]), ["a Running"], "what comes back is news");
        assert_eq!(changed_rows(&["b Running"]), [""; 0]);
    }

    #[test]
    fn watch_rows_keep_the_column_positions() {
        let get = get();
        let mut printer = Printer::new(&get, PODS, false);
        let rows = printer.rows(&table(&["a Pending x"]));
        printer.make_room();
        let first = printer.table(rows);
        let rows = printer.rows(&table(&["a-much-longer-name ContainerCreating x"]));
        let later = printer.columns.lines(&rows);
        let at = first.find("STATUS").unwrap();
        assert_eq!(later.find("ContainerCreating"), Some(at), "{first}{later}");
    }
}
