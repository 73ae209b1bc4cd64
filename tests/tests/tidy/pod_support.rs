//! Checks that `docs/pod-support.md` lists every field of the Pod API.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{assert_tidy, broken, top};

const PAGE: &str = "docs/pod-support.md";
const SCHEMA: &str = "api/src/schema/v1.txt";

/// Permitted states of a row, and whether the fields of the field's type need rows as well.
const STATES: &[(&str, bool)] =
    &[("yes", true), ("partly", true), ("of a master", true), ("no effect", false), ("refused", false)];

/// A row of the page: `field`, its state, and its line number.
struct Row {
    state: String,
    line: usize,
}

/// Fields by type of the schema, each with its own type.
type Types<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a str)>>;

#[test]
fn every_pod_field_has_a_row() {
    let read =
        |path: &str| fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_tidy(&check(&read(SCHEMA), &read(PAGE)));
}

fn check(schema: &str, page: &str) -> Vec<String> {
    let types = types(schema);
    let (rows, mut faults) = rows(page);
    let mut wanted = BTreeSet::new();
    let mut waiting = vec!["Pod"];
    while let Some(of) = waiting.pop() {
        if !wanted.insert(of) {
            continue;
        }
        for (field, kind) in &types[of] {
            let Some(row) = rows.get(&(of, *field)) else {
                faults.push(broken(PAGE, 1, &format!("{of}.{field} has no row: say whether it works here")));
                continue;
            };
            match STATES.iter().find(|(state, _)| *state == row.state) {
                None => {
                    faults.push(broken(PAGE, row.line, &format!("{:?} is none of {STATES:?}", row.state)))
                }
                // The kubelet writes the status and does not read it.
                Some((_, true)) if *field != "status" => {
                    let inner = kind.trim_start_matches(['[', ']']).trim_start_matches("map ");
                    waiting.extend(types.get_key_value(inner).map(|(name, _)| *name));
                }
                Some(_) => {}
            }
        }
    }
    for ((of, field), row) in &rows {
        if !wanted.contains(of) || !types[of].iter().any(|(known, _)| known == field) {
            faults.push(broken(
                PAGE,
                row.line,
                &format!("{of}.{field} is no field of the Pod API that needs a row"),
            ));
        }
    }
    faults
}

fn types(schema: &str) -> Types<'_> {
    let mut types = Types::new();
    let mut current = "";
    for line in schema.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ") {
            None => {
                current = line;
                types.insert(current, Vec::new());
            }
            Some(field) => types.get_mut(current).unwrap().push(field.split_once(' ').unwrap()),
        }
    }
    types
}

/// Rows by type (the heading above them) and field, and duplicate rows.
fn rows(page: &str) -> (BTreeMap<(&str, &str), Row>, Vec<String>) {
    let mut rows = BTreeMap::new();
    let mut faults = Vec::new();
    let mut of = "";
    for (number, line) in page.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            of = heading.trim();
        } else if let Some((field, rest)) = line.strip_prefix("| `").and_then(|line| line.split_once("` |")) {
            let state = rest.split('|').next().unwrap_or("").trim().to_owned();
            if rows.insert((of, field), Row { state, line: number + 1 }).is_some() {
                faults.push(broken(PAGE, number + 1, &format!("{of}.{field} has two rows")));
            }
        }
    }
    (rows, faults)
}

#[test]
fn check_finds_missing_stale_and_wrong_rows() {
    let schema = "# table\nPod\n  spec PodSpec\n  status PodStatus\nPodSpec\n  a string\n  b []Inner\n  c map Other\nInner\n  x int32\nOther\n  y bool\nPodStatus\n  z string\n";
    let page = "## Pod\n| `spec` | yes | |\n| `status` | yes | |\n## PodSpec\n| `a` | yes | |\n| `b` | yes | |\n| `c` | refused | |\n## Inner\n| `x` | no effect | |\n";
    assert_eq!(check(schema, page), [""; 0]);
    let without = |line: &str| check(schema, &page.replace(line, "")).len();
    assert_eq!(without("| `a` | yes | |\n"), 1);
    assert_eq!(check(schema, &page.replace("`a` | yes", "`a` | perhaps")).len(), 1);
    assert_eq!(
        check(schema, &page.replace("`c` | refused", "`c` | yes")).len(),
        1,
        "Other.y needs a row now"
    );
    assert_eq!(check(schema, &format!("{page}| `gone` | yes | |\n")).len(), 1);
    assert_eq!(check(schema, &format!("{page}| `x` | yes | |\n")).len(), 1);
}
