//! FlowSchemas and PriorityLevelConfigurations compared to those of a stock server, and the handling of edited ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::Timestamp;
use serde_json::json;

use super::objects::all;
use super::*;

fn named(kind: &Kind, name: &str) -> Object {
    all().into_iter().find(|object| object.kind.is(kind) && object.name == name).unwrap()
}

/// Compares the output of `kubectl get flowschemas,prioritylevelconfigurations` with a stock server's.
#[test]
fn flow_control_objects_equal_those_of_the_stock_server() {
    let mut schemas = Vec::new();
    let mut levels = Vec::new();
    for object in all() {
        let spec = &object.spec;
        if object.kind.is(&FLOW_SCHEMA) {
            let level = spec["priorityLevelConfiguration"]["name"].as_str().unwrap().to_owned();
            let precedence = spec["matchingPrecedence"].as_u64().unwrap();
            let method = spec["distinguisherMethod"]["type"].as_str().unwrap_or_default().to_owned();
            schemas.push((object.name, level, precedence, method));
        } else {
            let (limited, queuing) = (&spec["limited"], &spec["limited"]["limitResponse"]["queuing"]);
            let number = |value: &Value| value.as_u64().unwrap_or_default();
            levels.push((
                object.name,
                spec["type"].as_str().unwrap().to_owned(),
                number(&limited["nominalConcurrencyShares"]),
                number(&limited["lendablePercent"]),
                [&queuing["queues"], &queuing["handSize"], &queuing["queueLengthLimit"]].map(number),
            ));
        }
    }
    levels.sort_unstable();
    let own = |(name, level, precedence, method): (&'static str, &str, u64, &str)| {
        (name, level.to_owned(), precedence, method.to_owned())
    };
    let expected = [
        ("exempt", "exempt", 1, ""),
        ("probes", "exempt", 2, ""),
        ("system-leader-election", "leader-election", 100, "ByUser"),
        ("endpoint-controller", "workload-high", 150, "ByUser"),
        ("workload-leader-election", "leader-election", 200, "ByUser"),
        ("system-node-high", "node-high", 400, "ByUser"),
        ("system-nodes", "system", 500, "ByUser"),
        ("kube-controller-manager", "workload-high", 800, "ByNamespace"),
        ("kube-scheduler", "workload-high", 800, "ByNamespace"),
        ("kube-system-service-accounts", "workload-high", 900, "ByNamespace"),
        ("service-accounts", "workload-low", 9000, "ByUser"),
        ("global-default", "global-default", 9900, "ByUser"),
        ("catch-all", "catch-all", 10_000, "ByUser"),
    ];
    assert_eq!(schemas, expected.map(own));
    let expected = [
        ("catch-all", "Limited", 5, 0, [0, 0, 0]),
        ("exempt", "Exempt", 0, 0, [0, 0, 0]),
        ("global-default", "Limited", 20, 50, [128, 6, 50]),
        ("leader-election", "Limited", 10, 0, [16, 4, 50]),
        ("node-high", "Limited", 40, 25, [64, 6, 50]),
        ("system", "Limited", 30, 33, [64, 6, 50]),
        ("workload-high", "Limited", 40, 50, [128, 6, 50]),
        ("workload-low", "Limited", 100, 90, [128, 6, 50]),
    ];
    assert_eq!(levels, expected.map(|(name, kind, a, b, c)| (name, kind.to_owned(), a, b, c)));
}

/// What a stock 1.21 server returned for three of them.
#[test]
fn flow_schema_rules_equal_those_of_the_stock_server() {
    let everything = json!({
        "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        "resourceRules": [
            {"apiGroups": ["*"], "clusterScope": true, "namespaces": ["*"], "resources": ["*"], "verbs": ["*"]},
        ],
        "subjects": [
            {"group": {"name": "system:unauthenticated"}, "kind": "Group"},
            {"group": {"name": "system:authenticated"}, "kind": "Group"},
        ],
    });
    assert_eq!(named(&FLOW_SCHEMA, "catch-all").spec["rules"], json!([everything]));
    assert_eq!(
        named(&FLOW_SCHEMA, "workload-leader-election").spec["rules"],
        json!([{
            "resourceRules": [
                {"apiGroups": [""], "namespaces": ["*"], "resources": ["endpoints", "configmaps"],
                 "verbs": ["get", "create", "update"]},
                {"apiGroups": ["coordination.k8s.io"], "namespaces": ["*"], "resources": ["leases"],
                 "verbs": ["get", "create", "update"]},
            ],
            "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}],
        }]),
    );
    assert_eq!(
        named(&FLOW_SCHEMA, "probes").spec,
        json!({
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": [{
                "nonResourceRules": [{"nonResourceURLs": ["/healthz", "/readyz", "/livez"], "verbs": ["get"]}],
                "subjects": [
                    {"group": {"name": "system:unauthenticated"}, "kind": "Group"},
                    {"group": {"name": "system:authenticated"}, "kind": "Group"},
                ],
            }],
        }),
    );
}

#[test]
fn auto_update_annotation_decides_whether_edits_are_reset() {
    let edited = |object: &Object, annotation: Value| {
        let mut edited = object.json();
        edited["metadata"]["annotations"] = json!({AUTO_UPDATE: annotation});
        edited["spec"] = json!({"edited": true});
        edited.as_object().unwrap().clone()
    };
    for (kind, name, annotation, is_reset) in [
        (&FLOW_SCHEMA, "service-accounts", json!("true"), true),
        (&FLOW_SCHEMA, "service-accounts", json!("false"), false),
        (&PRIORITY_LEVEL, "system", json!(null), false),
        (&FLOW_SCHEMA, "exempt", json!("false"), true),
        (&PRIORITY_LEVEL, "catch-all", json!(null), true),
    ] {
        let object = named(kind, name);
        assert_eq!(plan(None, &object), Step::Create(object.json()), "{name}");
        assert_eq!(plan(object.json().as_object(), &object), Step::Nothing, "{name}");
        match plan(Some(&edited(&object, annotation)), &object) {
            Step::Update(reset) => assert!(is_reset && reset["spec"] == object.spec, "{name}"),
            step => assert!(!is_reset && step == Step::Nothing, "{name}: {step:?}"),
        }
    }
}

#[test]
fn flow_schema_is_dangling_without_its_priority_level() {
    let named = "This FlowSchema references the PriorityLevelConfiguration object named \"gold\"";
    let condition = |status: &str, reason: &str, message: &str| {
        json!({"type": "Dangling", "status": status, "reason": reason, "message": format!("{named} {message}"),
            "lastTransitionTime": "1970-01-01T00:00:00Z"})
    };
    let found = condition("False", "Found", "and it exists");
    let missing = condition("True", "NotFound", "but there is no such object");
    let other = json!({"type": "Other", "status": "True"});
    for (levels, before, expected) in [
        (vec!["gold"], json!([]), Some(&found)),
        (vec!["silver"], json!([]), Some(&missing)),
        (vec!["gold"], json!([other, found]), None),
        (vec![], json!([missing]), None),
        (vec!["gold"], json!([missing]), Some(&found)),
        (vec![], json!([other, found]), Some(&missing)),
    ] {
        let schema = json!({"spec": {"priorityLevelConfiguration": {"name": "gold"}}, "status": {"conditions": before}});
        let schema = serde_json::from_value(schema).unwrap();
        let levels = levels.into_iter().map(Box::from).collect();
        let patch = dangling::patch(&schema, &levels, Timestamp::UNIX_EPOCH);
        assert_eq!(
            patch.map(|patch| patch["status"]["conditions"].clone()),
            expected.map(|one| json!([one]))
        );
    }
}
