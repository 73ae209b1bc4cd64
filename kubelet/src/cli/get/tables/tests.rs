//! Lines of a watch.
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

/// `NAME STATUS`, a row each.
fn table(rows: &[&str]) -> Value {
    let row = |row: &&str| {
        let cells: Vec<&str> = row.split(' ').collect();
        json!({"cells": cells, "object": {"metadata": {"namespace": "default", "name": cells[0]}}})
    };
    let heads = ["Name", "Status"].map(|name| json!({"name": name, "priority": 0}));
    json!({"columnDefinitions": heads, "rows": rows.iter().map(row).collect::<Vec<_>>()})
}

#[test]
fn the_same_line_is_printed_once_for_each_object() {
    let get = get();
    let mut printer = Printer::new(&get, PODS, false);
    let mut last = Last::default();
    let mut news = |rows: &[&str]| -> Vec<String> {
        let table = table(rows);
        last.news(&table, printer.rows(&table)).iter().map(|row| row.join(" ")).collect()
    };
    assert_eq!(news(&["a Running", "b Running"]), ["a Running", "b Running"]);
    assert_eq!(news(&["a Running"]), [""; 0]);
    assert_eq!(news(&["a Terminating"]), ["a Terminating"]);
    assert_eq!(news(&["a Running"]), ["a Running"], "what comes back is news");
    assert_eq!(news(&["b Running"]), [""; 0]);
}

#[test]
fn later_lines_stand_under_earlier_ones() {
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
