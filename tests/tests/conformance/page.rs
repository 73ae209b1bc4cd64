//! `docs/conformance.md` is correct: its counts add up, each test that it names exists, and it names every test of this suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/conformance.md";

/// The possible states of a line.
const STATES: [&str; 4] = ["passes", "not yet", "needs a node", "needs a network"];

/// The possible results of the official suite; `-` is a line that its version does not have.
const OFFICIAL: [&str; 5] = ["passes", "with stock controllers", "fails", "not run", "-"];

/// A row: the requirement of the line, its state, the result of the official suite, and the tests that cover it or the
/// reason why none does.
struct Row<'a> {
    line: &'a str,
    needs: &'a str,
    state: &'a str,
    official: &'a str,
    proof: &'a str,
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn conformance_page_matches_the_tests() {
    let page = fs::read_to_string(top().join(PAGE)).unwrap();
    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(top().join("tests/tests/conformance")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        sources.insert(name, fs::read_to_string(&path).unwrap());
    }
    sources.remove("page");
    let faults = check(&page, &sources);
    assert!(faults.is_empty(), "{PAGE}:\n{}", faults.join("\n"));
}

fn check(page: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let rows: Vec<Row<'_>> = page.lines().filter_map(row).collect();
    let mut faults = Vec::new();
    let mut named = BTreeSet::new();
    let mut lines = BTreeSet::new();
    for row in &rows {
        let Row { line, needs, state, official, proof } = row;
        if !lines.insert(line) {
            faults.push(format!("{line:?} stands twice"));
        }
        if !STATES.contains(state) || !["api", "api+ctl", "node", "node+net"].contains(needs) {
            faults.push(format!("{line:?}: {state:?} or {needs:?} is no word of this page"));
        }
        if !OFFICIAL.contains(official) {
            faults.push(format!("{line:?}: {official:?} is no result of the official suite"));
        }
        // If the official suite fails and our own test passes, our test may only repeat the implementation. The row
        // must then give a reason.
        if *official == "fails" && *state == "passes" && !proof.contains("; the suite: ") {
            faults.push(format!("{line:?} fails in the official suite without a reason"));
        }
        if proof.is_empty() && matches!(*state, "passes" | "not yet") {
            faults.push(format!("{line:?} names neither a test nor a reason"));
        }
        let tests = tests_in(proof);
        if *state == "passes" && tests.is_empty() {
            faults.push(format!("{line:?} passes and names no test"));
        }
        for (test, part) in tests {
            let (module, name) = test.split_once("::").unwrap();
            let source = sources.get(module).map_or("", String::as_str);
            let part = part.map(|part| format!("\"{part}\"")).unwrap_or_default();
            if !tests_of(source).contains(&name) || !source.contains(&part) {
                faults.push(format!("{line:?} names {test} {part}, which is no test here"));
            }
            named.insert(test);
        }
    }
    for (module, source) in sources {
        for name in tests_of(source) {
            if !named.contains(format!("{module}::{name}").as_str()) {
                faults.push(format!("{module}::{name} stands for no line"));
            }
        }
    }
    let passing = rows.iter().filter(|row| row.state == "passes").count();
    let count = format!("**{passing} of {} lines pass", rows.len());
    if !page.contains(&count) {
        faults.push(format!("the page does not begin with \"{count}\""));
    }
    let of = |result: &str| rows.iter().filter(|row| row.official == result).count();
    let listed = rows.len() - of("-");
    let count = format!("**{} of {listed} lines pass in the official suite", of("passes"));
    if !page.contains(&count) {
        faults.push(format!("the page does not say \"{count}\""));
    }
    faults
}

fn row(text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::trim).collect();
    match cells[..] {
        [line, needs, state, official, proof] if line != "line" => {
            Some(Row { line, needs, state, official, proof })
        }
        _ => None,
    }
}

/// The tests in a cell, each with the relevant part: `` `module::test` (part) ``.
fn tests_in(proof: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    let mut rest = proof;
    while let Some((_, after)) = rest.split_once('`') {
        let Some((test, after)) = after.split_once('`') else { break };
        let part = after.strip_prefix(" (").and_then(|part| part.split_once(')')).map(|(part, _)| part);
        if test.contains("::") {
            found.push((test, part));
        }
        rest = after;
    }
    found
}

/// The names of the tests of a source file.
fn tests_of(source: &str) -> Vec<&str> {
    let tests = source.split("#[tokio::test]\nasync fn ").skip(1);
    tests.filter_map(|test| test.split_once('(').map(|(name, _)| name)).collect()
}

#[test]
fn check_finds_a_wrong_conformance_page() {
    let sources = BTreeMap::from([("a".to_owned(), "#[tokio::test]\nasync fn b() { \"c\" }".to_owned())]);
    let page = "**1 of 2 lines pass\n**1 of 1 lines pass in the official suite\n\
                | one | api | passes | passes | `a::b` (c) |\n| two | node | needs a node | - |  |\n";
    let faults = |from: &str, to: &str| check(&page.replace(from, to), &sources).len();
    assert_eq!(check(page, &sources), [""; 0]);
    for (from, to) in [
        ("**1", "**2"),
        ("(c)", "(d)"),
        ("a::b", "a::d"),
        ("| passes | passes |", "| fails | passes |"),
        ("| passes | passes |", "| passes | fails |"),
        ("| - |", "| maybe |"),
        ("**1 of 1", "**0 of 1"),
        ("two", "one"),
        ("`a::b` (c)", "why"),
    ] {
        assert!(faults(from, to) > 0, "{from} {to}");
    }
}
