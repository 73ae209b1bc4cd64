//! Tests of invalid and hostile input: each is a problem, in bounded time and memory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use super::super::{MAX_MANIFEST_BYTES, MAX_PROBLEMS, decode};
use super::process_usage::{cpu_time, memory_kib};
use super::{WEB, check};

/// Limit for the CPU time of a manifest of 10 MiB in a debug build.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Limit for the memory of decoding a manifest, including the manifest.
const MEMORY_KIB: u64 = 384 << 10;

fn hostile(manifest: &str) -> Vec<String> {
    let start = cpu_time();
    let decoded = decode(manifest.as_bytes());
    let took = cpu_time() - start;
    assert!(took < TIME_LIMIT, "took {took:?}");
    assert!(memory_kib() < MEMORY_KIB, "{} KiB", memory_kib());
    decoded.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn invalid_yaml_is_an_error() {
    for (text, problem) in [
        ("a: [", "1:4: unclosed bracket '['; close it; the file may be truncated"),
        ("a: [b\nc: d", "1:4: the `[` that opens here is never closed; write `]` where it ends"),
        ("a: \"x", "1:4: unclosed quote; close it; the file may be truncated"),
        (
            "a: b: c",
            "1:5: mapping values are not allowed in this context; check the indentation, and put a value that holds `: ` in quotes",
        ),
        ("a: 1\na: 2", "2:1: the key `a` is defined twice; keep one of them"),
        ("a:\n\t- b", "2:2: tabs disallowed within this context (block indentation); indent with spaces"),
        (
            "a:\n  b: 1\n c: 2",
            "3:2: while parsing a block mapping, did not find expected key; check the indentation of this line and the one before",
        ),
        ("a: @b", "1:4: unexpected character: `@'; put the value in quotes"),
        ("a: *b", "1:4: an alias without an anchor; define the anchor (`&name`) before it is used (`*name`)"),
        ("a: &x [*x]", "1:8: an alias inside of its own anchor; write the value out"),
        (
            "{{ .Values.pod }}",
            "1:2: expected a name, found a list or map; this looks like a template: render it first",
        ),
        (
            "kind: {{ .Kind }}",
            "1:8: expected a name, found a list or map; this looks like a template: render it first",
        ),
    ] {
        check(text, &[], &[problem]);
    }
}

#[test]
fn invalid_json_is_an_error() {
    for (text, problem) in [
        (r#"{"a": 1, "a": 2}"#, "1:12: the key `a` is defined twice; keep one of them"),
        ("{\"a\": 1,\n\"b\"", "2:3: EOF while parsing an object; complete the file: it looks truncated"),
        (r#"{"a": ]"#, "1:7: expected value; correct the JSON here"),
        (r#"{"a": "\x"}"#, "1:9: invalid escape; correct the JSON here"),
    ] {
        check(text, &[], &[problem]);
    }
}

#[test]
fn non_utf8_input_is_an_error() {
    for (bytes, problem) in [
        (&b"kind: Pod\n\xff\xff"[..], "2:1: the manifest is not UTF-8 from here on; save it as UTF-8"),
        (
            b"a: \xc3\xa9\x00",
            "1:5: the manifest holds a NUL byte; remove it; the file may be damaged, or not a text file",
        ),
        (b"\xff\xfek\0i\0", "1:1: the manifest is UTF-16; save it as UTF-8"),
    ] {
        let messages: Vec<String> = decode(bytes).problems.iter().map(ToString::to_string).collect();
        assert_eq!(messages, [problem]);
    }
}

#[test]
fn other_line_endings_are_accepted() {
    check(&format!("\u{feff}{WEB}"), &["Pod default/web"], &[]);
    check(&WEB.replace('\n', "\r\n"), &["Pod default/web"], &[]);
    check(
        &format!("{WEB}---\n{}", WEB.replace("web", "two")).replace('\n', "\r\n"),
        &["Pod default/web", "Pod default/two"],
        &[],
    );
}

#[test]
fn manifest_size_is_limited() {
    let mut big = format!("{WEB}#");
    big.push_str(&"x".repeat(MAX_MANIFEST_BYTES));
    assert_eq!(hostile(&big), ["1:1: the manifest is larger than 10 MiB; split it into several files"]);
}

#[test]
fn deeply_nested_input_is_rejected() {
    let deep = "lists and maps nest too deeply; no manifest needs more than a dozen levels: check the brackets and indentation";
    for (unit, place) in [("[", "1:65"), ("{a: ", "1:257"), ("- ", "1:129"), ("? ", "1:129")] {
        let text = unit.repeat(MAX_MANIFEST_BYTES / unit.len());
        let messages = hostile(&text);
        assert!(messages.len() == 1 && messages[0].ends_with(deep), "{unit:?} at {place}: {messages:?}");
    }
    let messages = hostile(&r#"{"a":"#.repeat(MAX_MANIFEST_BYTES / 5));
    assert_eq!(messages, [format!("1:636: {deep}")]);
    let mut steps = String::new();
    let mut indent = String::new();
    while steps.len() + indent.len() + 4 < MAX_MANIFEST_BYTES {
        steps.push_str(&indent);
        steps.push_str("a:\n");
        indent.push(' ');
    }
    assert!(hostile(&steps)[0].ends_with(deep));
}

#[test]
fn exponential_yaml_aliases_are_rejected() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let before = level - 1;
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{before}, ").repeat(9)));
    }
    let messages = hostile(&bomb);
    assert!(
        messages.len() == 1
            && messages[0]
                .contains("the document with all aliases expanded exceeds the limits of a manifest"),
        "{messages:?}"
    );
    // Many small aliases, which share one limit.
    let small = "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n---\n";
    hostile(&small.repeat(200));
    // A long string, repeated by aliases.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(10_000));
    hostile(&long);
}

#[test]
fn a_million_broken_documents() {
    let messages = hostile(&"---\nx\n".repeat(MAX_MANIFEST_BYTES / 6));
    assert_eq!(messages.len(), MAX_PROBLEMS + 1);
    assert!(messages[MAX_PROBLEMS].ends_with("further problems are not shown; correct these first"));
}

#[test]
fn thousands_of_invalid_fields() {
    let mut text = String::from("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n");
    for field in 0..10_000 {
        text.push_str(&format!("  field{field}: 1\n"));
    }
    assert!(hostile(&text).len() <= MAX_PROBLEMS + 1);
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    text.push_str(&"- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, nam: b}}\n".repeat(1_000));
    assert!(hostile(&text).len() <= MAX_PROBLEMS + 1);
}

#[test]
fn manifest_of_the_maximum_size_is_accepted() {
    let value = "x".repeat(1000);
    let mut text = String::new();
    for map in 0..10 {
        text.push_str(&format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{map}}}\ndata:\n"));
        for key in 0..1000 {
            text.push_str(&format!("  key{key}: {value}\n"));
        }
    }
    assert_eq!(hostile(&text), [] as [String; 0]);
    assert_eq!(decode(text.as_bytes()).objects.len(), 10);
}

#[test]
fn ten_mebibytes_of_small_values() {
    let number = "0,".repeat(MAX_MANIFEST_BYTES / 2 - 10);
    let much = "the manifest holds more than 250000 values; split it into several files";
    assert!(hostile(&format!("{{\"a\": [{number}0]}}"))[0].ends_with(much));
    assert!(hostile(&format!("a: [{number}0]")).len() == 1);
    assert!(hostile(&"a,".repeat(MAX_MANIFEST_BYTES / 2)).len() == 1);
}

#[test]
fn positions_in_expanded_aliases_are_computed_quickly() {
    // The maximum number of values and one error, so that all positions are computed.
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nx: &x {{a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9}}\ny: &y [{}]\nz: [{}]\n",
        "*x, ".repeat(100),
        "*y, ".repeat(40),
    );
    let messages = hostile(&text);
    assert!(messages.len() == 3 && messages[2].starts_with("6:1: z: unknown field"), "{messages:?}");
}
