//! What rules allow and cover, and how they are printed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

/// `verbs groups resources names`, comma-separated, with `core` for the core group; or `verbs /path,/path`.
fn rule(text: &str) -> Rule {
    let words: Vec<&str> = text.split(' ').collect();
    let list = |at: usize| -> Vec<String> {
        let words = words.get(at).into_iter().flat_map(|words| words.split(','));
        words.map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    };
    if words[1].starts_with('/') || words.len() == 2 {
        return Rule { verbs: list(0), paths: list(1), ..Rule::default() };
    }
    Rule { verbs: list(0), groups: list(1), resources: list(2), names: list(3), paths: Vec::new() }
}

/// `verb group resource[/subresource] [name]`, or `verb /path`.
fn attributes(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    if words[1].starts_with('/') {
        return Attributes::on_path(words[0], words[1]);
    }
    let (resource, subresource) = words[2].split_once('/').unwrap_or((words[2], ""));
    Attributes::on(
        words[0],
        ResourceAttributes {
            group: if words[1] == "core" { String::new() } else { words[1].to_owned() },
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: words.get(3).copied().unwrap_or_default().to_owned(),
            ..ResourceAttributes::default()
        },
    )
}

#[test]
fn rule_allows_only_its_verbs_and_resources() {
    for (own, requested, expected) in [
        ("get,list core pods", "get core pods a", true),
        ("get,list core pods", "watch core pods", false),
        ("get core pods", "get apps pods a", false),
        ("get core pods", "get core pods/log a", false),
        ("get core pods/log", "get core pods/log a", true),
        ("get core pods/log", "get core pods a", false),
        ("* * *", "escalate apps deployments/scale a", true),
        ("* * *", "get /healthz", false),
        ("get * */scale", "get apps deployments/scale a", true),
        ("get * */scale", "get apps deployments a", false),
        ("get * */", "get apps deployments a", false),
        ("get core pods a,b", "get core pods b", true),
        ("get core pods a,b", "get core pods c", false),
        ("list core pods a", "list core pods", false),
        ("get /healthz", "get /healthz", true),
        ("get /healthz", "get /healthz/ping", false),
        ("get /healthz/*", "get /healthz/ping", true),
        ("get /healthz/*", "get /healthz", false),
        ("get /healthz*", "get /healthz", true),
        ("get *", "get /anything", true),
        ("get *", "put /anything", false),
        ("get *", "get core pods a", false),
    ] {
        assert_eq!(rule(own).allows(&attributes(requested)), expected, "{own} | {requested}");
    }
}

#[test]
fn missing_rules_are_merged_and_deduplicated() {
    for (own, wanted, expected) in [
        (&["* * *", "* *"][..], "get core pods", ""),
        (&["get core pods", "list core pods"], "get,list core pods", ""),
        (
            &["get core pods"],
            "get,list,watch core pods",
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
        ),
        (&["get core pods a"], "get core pods", r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#),
        (&["get core pods"], "get core pods a", ""),
        (
            &["get core pods a"],
            "get core pods a,b",
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#,
        ),
        (&["get * */scale"], "get apps deployments/scale", ""),
        (&["get * */scale"], "get apps *", r#"{APIGroups:["apps"], Resources:["*"], Verbs:["get"]}"#),
        (&["* core *"], "* * *", r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#),
        (&["get /a/*"], "get /a/b", ""),
        (&["get /a/*"], "get /a/b/*", ""),
        (&["get /a/b"], "get /a/*", r#"{NonResourceURLs:["/a/*"], Verbs:["get"]}"#),
    ] {
        let own: Vec<Rule> = own.iter().map(|text| rule(text)).collect();
        let missing = compact(missing(&own, &[rule(wanted)]));
        let shown: Vec<String> = missing.iter().map(Rule::to_string).collect();
        assert_eq!(shown.join("; "), expected, "{wanted}");
    }
}

#[test]
fn rules_round_trip() {
    for text in ["get,list core,apps pods,pods/log a,b", "get /healthz,/livez"] {
        assert_eq!(Rule::read(&rule(text).json()), rule(text));
    }
    assert_eq!(Rule::read(&json!({"verbs": "get", "resources": [1, "pods", null]})).resources, ["pods"]);
    assert_eq!(Rule::read(&json!(7)), Rule::default());
}
