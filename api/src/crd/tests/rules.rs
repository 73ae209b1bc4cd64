//! Tests of CEL rules as users write them.

mod limits;

use serde_json::{Value, json};

use super::{crontabs, messages, object};
use crate::crd::{CustomResourceDefinitions, Schema};
use crate::strategy::{Part, Strategy as _};

/// The path of the schema of `spec` in the definition.
const AT: &str = "spec.versions[0].schema.openAPIV3Schema.properties[spec]";

/// The schema of an object with this schema for `spec`.
fn schema(spec: &Value) -> Schema {
    Schema::read(&json!({"type": "object", "properties": {"spec": spec}}))
}

/// The errors of an updated spec.
fn check_rules(of: &Schema, spec: &Value, before: Option<&Value>) -> Vec<String> {
    let object = |spec: &Value| {
        object(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec}))
    };
    let before = before.map(object);
    messages(&of.check(&object(spec), before.as_ref()))
}

/// The errors of a definition with this schema for `spec`.
fn refused(spec: Value) -> Vec<String> {
    messages(&CustomResourceDefinitions.validate(&crontabs(spec), None, &Part::Main))
}

fn text() -> Value {
    json!({"type": "string"})
}

/// A schema with properties and one rule.
fn ruled(properties: Value, rule: &str) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule, "message": "no"}]})
}

/// Rules in the style of published definitions: properties, rule, valid specs, invalid specs.
fn wild() -> Vec<(Value, &'static str, Vec<Value>, Vec<Value>)> {
    let words = json!({"type": "array", "items": {"type": "string"}, "maxItems": 16});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let int = json!({"type": "integer"});
    let listeners = json!({"type": "array", "items": {"type": "object", "properties": {
        "name": text(), "port": int, "protocol": text(), "hostname": text(),
        "tls": {"type": "object", "properties": {"mode": text(), "certificateRefs": {"type": "array", "items": {"type": "object", "properties": {"name": text()}}}}},
    }}});
    let requirements = json!({"type": "array", "items": {"type": "object", "properties": {
        "key": text(), "operator": text(), "values": words, "minValues": int}}});
    let two = |a: &str, b: &str| json!({a: text(), b: text()});
    vec![
        // Gateways.
        (
            json!({"listeners": listeners}),
            "self.listeners.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)",
            vec![json!({"listeners": [{"protocol": "HTTP"}]})],
            vec![json!({"listeners": [{"protocol": "HTTP", "tls": {}}]})],
        ),
        (
            json!({"listeners": listeners}),
            "self.listeners.all(l, (l.protocol == 'HTTPS' && has(l.tls)) ? (l.tls.mode == '' || l.tls.mode == 'Terminate') : true)",
            vec![json!({"listeners": [{"protocol": "HTTPS", "tls": {"mode": "Terminate"}}]})],
            vec![json!({"listeners": [{"protocol": "HTTPS", "tls": {"mode": "Passthrough"}}]})],
        ),
        (
            json!({"listeners": listeners}),
            "self.listeners.all(l1, self.listeners.exists_one(l2, l1.name == l2.name))",
            vec![json!({"listeners": [{"name": "a"}, {"name": "b"}]}), json!({"listeners": []})],
            vec![json!({"listeners": [{"name": "a"}, {"name": "a"}]})],
        ),
        (
            json!({"listeners": listeners}),
            "self.listeners.all(l1, self.listeners.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
            vec![
                json!({"listeners": [{"port": 80, "protocol": "HTTP"}, {"port": 80, "protocol": "HTTP", "hostname": "x"}]}),
            ],
            vec![json!({"listeners": [{"port": 80, "protocol": "HTTP"}, {"port": 80, "protocol": "HTTP"}]})],
        ),
        (
            json!({"kind": text(), "group": text(), "port": int}),
            "(size(self.group) == 0 && self.kind == 'Service') ? has(self.port) : true",
            vec![
                json!({"group": "", "kind": "Service", "port": 80}),
                json!({"group": "x", "kind": "Service"}),
            ],
            vec![json!({"group": "", "kind": "Service"})],
        ),
        (
            json!({"type": text(), "value": text()}),
            "self.type == 'RegularExpression' || self.value.matches('^/([^?#]*)$')",
            vec![json!({"type": "Exact", "value": "/a"})],
            vec![json!({"type": "Exact", "value": "a"})],
        ),
        (
            json!({"value": text()}),
            "!self.value.contains('//') && !self.value.contains('/./') && !self.value.endsWith('/..')",
            vec![json!({"value": "/a/b"})],
            vec![json!({"value": "/a//b"}), json!({"value": "/a/.."})],
        ),
        (
            json!({"filters": {"type": "array", "items": {"type": "object", "properties": {"type": text()}}}}),
            "self.filters.filter(f, f.type == 'RequestRedirect').size() <= 1",
            vec![json!({"filters": [{"type": "RequestRedirect"}, {"type": "X"}]})],
            vec![json!({"filters": [{"type": "RequestRedirect"}, {"type": "RequestRedirect"}]})],
        ),
        (
            json!({"filters": {"type": "array", "items": {"type": "object", "properties": {"type": text()}}}}),
            "!(self.filters.exists(f, f.type == 'RequestRedirect') && self.filters.exists(f, f.type == 'URLRewrite'))",
            vec![json!({"filters": [{"type": "URLRewrite"}]})],
            vec![json!({"filters": [{"type": "RequestRedirect"}, {"type": "URLRewrite"}]})],
        ),
        (
            json!({"request": text(), "backendRequest": text()}),
            "!(has(self.request) && has(self.backendRequest) && duration(self.request) != duration('0s') && duration(self.backendRequest) > duration(self.request))",
            vec![
                json!({"request": "10s", "backendRequest": "2s"}),
                json!({"request": "0s", "backendRequest": "2s"}),
            ],
            vec![json!({"request": "1s", "backendRequest": "1m"})],
        ),
        (
            json!({"min": int, "max": int}),
            "self.min <= self.max",
            vec![json!({"min": 1, "max": 1})],
            vec![json!({"min": 2, "max": 1})],
        ),
        // Exactly one, at most one, both or none.
        (
            two("a", "b"),
            "has(self.a) != has(self.b)",
            vec![json!({"a": "x"})],
            vec![json!({}), json!({"a": "x", "b": "y"})],
        ),
        (
            two("a", "b"),
            "[has(self.a), has(self.b)].filter(x, x == true).size() == 1",
            vec![json!({"b": "x"})],
            vec![json!({}), json!({"a": "x", "b": "y"})],
        ),
        (
            two("a", "b"),
            "(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) <= 1",
            vec![json!({}), json!({"a": ""})],
            vec![json!({"a": "x", "b": "y"})],
        ),
        (
            two("a", "b"),
            "has(self.a) == has(self.b)",
            vec![json!({}), json!({"a": "x", "b": "y"})],
            vec![json!({"a": "x"})],
        ),
        (
            two("type", "cert"),
            "self.type == 'CA' ? has(self.cert) : !has(self.cert)",
            vec![json!({"type": "CA", "cert": "x"}), json!({"type": "B"})],
            vec![json!({"type": "CA"}), json!({"type": "B", "cert": "x"})],
        ),
        // Node pools.
        (
            json!({"requirements": requirements}),
            "self.requirements.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
            vec![json!({"requirements": [{"operator": "In", "values": ["a"]}, {"operator": "Exists"}]})],
            vec![json!({"requirements": [{"operator": "In", "values": []}]})],
        ),
        (
            json!({"requirements": requirements}),
            "self.requirements.all(x, (x.operator == 'Gt' || x.operator == 'Lt') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
            vec![json!({"requirements": [{"operator": "Gt", "values": ["3"]}]})],
            vec![
                json!({"requirements": [{"operator": "Gt", "values": ["-3"]}]}),
                json!({"requirements": [{"operator": "Gt", "values": ["x"]}]}),
            ],
        ),
        (
            json!({"requirements": requirements}),
            "self.requirements.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            vec![json!({"requirements": [{"operator": "In", "values": ["a"], "minValues": 1}]})],
            vec![json!({"requirements": [{"operator": "In", "values": ["a"], "minValues": 2}]})],
        ),
        (
            json!({"key": text()}),
            "self.key in ['kubernetes.io/arch', 'kubernetes.io/os'] || !self.key.find('^([^/]+)').endsWith('kubernetes.io')",
            vec![json!({"key": "kubernetes.io/arch"}), json!({"key": "mine/x"})],
            vec![json!({"key": "node.kubernetes.io/x"})],
        ),
        (
            json!({"labels": map}),
            "self.labels.all(x, x in ['a', 'b'] || !x.startsWith('karpenter'))",
            vec![json!({"labels": {"a": "1", "z": "2"}})],
            vec![json!({"labels": {"karpenter/x": "1"}})],
        ),
        (
            json!({"budgets": {"type": "array", "items": {"type": "object", "properties": {"schedule": text(), "duration": text()}}}}),
            "self.budgets.all(x, has(x.schedule) == has(x.duration))",
            vec![json!({"budgets": [{}, {"schedule": "x", "duration": "1h"}]})],
            vec![json!({"budgets": [{"schedule": "x"}]})],
        ),
        (
            json!({"expireAfter": text()}),
            "self.expireAfter.matches('^([0-9]+(s|m|h))+$') || self.expireAfter == 'Never'",
            vec![json!({"expireAfter": "720h"}), json!({"expireAfter": "Never"})],
            vec![json!({"expireAfter": "soon"})],
        ),
        // Certificates, storage, networks.
        (
            json!({"dnsNames": words}),
            "size(self.dnsNames) > 0 && self.dnsNames.all(n, n.size() <= 253 && !n.startsWith('.'))",
            vec![json!({"dnsNames": ["a.b"]})],
            vec![json!({"dnsNames": []}), json!({"dnsNames": [".a"]})],
        ),
        (
            json!({"duration": text(), "renewBefore": text()}),
            "!has(self.renewBefore) || duration(self.renewBefore) < duration(self.duration)",
            vec![json!({"duration": "1h"}), json!({"duration": "1h", "renewBefore": "5m"})],
            vec![json!({"duration": "1h", "renewBefore": "2h"})],
        ),
        (
            json!({"storage": {"x-kubernetes-int-or-string": true}}),
            "type(self.storage) == string ? quantity(self.storage).isGreaterThan(quantity('1Gi')) : self.storage > 1073741824",
            vec![json!({"storage": "2Gi"}), json!({"storage": 2_000_000_000})],
            vec![json!({"storage": "1Mi"}), json!({"storage": 5})],
        ),
        (
            json!({"storage": text()}),
            "isQuantity(self.storage) && quantity(self.storage).compareTo(quantity('500M')) >= 0",
            vec![json!({"storage": "1Gi"})],
            vec![json!({"storage": "big"}), json!({"storage": "1M"})],
        ),
        (
            json!({"cidr": text(), "ip": text()}),
            "isCIDR(self.cidr) && cidr(self.cidr).containsIP(ip(self.ip))",
            vec![json!({"cidr": "10.0.0.0/8", "ip": "10.1.2.3"})],
            vec![json!({"cidr": "10.0.0.0/8", "ip": "11.0.0.1"}), json!({"cidr": "x", "ip": "11.0.0.1"})],
        ),
        (
            json!({"ips": words}),
            "self.ips.all(i, isIP(i) && ip(i).family() == 4)",
            vec![json!({"ips": ["1.2.3.4"]})],
            vec![json!({"ips": ["::1"]}), json!({"ips": ["a"]})],
        ),
        (
            json!({"podCIDRs": words}),
            "self.podCIDRs.size() != 2 || ip.isCanonical('::1') && cidr(self.podCIDRs[0]).ip().family() != cidr(self.podCIDRs[1]).ip().family()",
            vec![json!({"podCIDRs": ["10.0.0.0/8", "fd00::/8"]})],
            vec![json!({"podCIDRs": ["10.0.0.0/8", "10.0.0.0/8"]})],
        ),
        (
            json!({"endpoint": text()}),
            "isURL(self.endpoint) && url(self.endpoint).getScheme() in ['http', 'https'] && url(self.endpoint).getHostname() != ''",
            vec![json!({"endpoint": "https://a.b:8443/x?y=z"})],
            vec![
                json!({"endpoint": "ftp://a"}),
                json!({"endpoint": "not a url"}),
                json!({"endpoint": "https:///x"}),
            ],
        ),
        (
            json!({"version": text()}),
            "isSemver(self.version) && !semver(self.version).isLessThan(semver('1.28.0'))",
            vec![json!({"version": "1.30.1"})],
            vec![json!({"version": "1.9.0"}), json!({"version": "one"})],
        ),
        (
            json!({"name": text()}),
            "!format.dns1123Label().validate(self.name).hasValue()",
            vec![json!({"name": "web-1"})],
            vec![json!({"name": "Web_1"})],
        ),
        // Lists of type set and map.
        (
            json!({"set": {"type": "array", "x-kubernetes-list-type": "set", "items": text()}}),
            "self.set == ['a', 'b']",
            vec![json!({"set": ["b", "a"]})],
            vec![json!({"set": ["a", "c"]})],
        ),
        (
            json!({"modes": words}),
            "sets.intersects(self.modes, ['rw', 'ro']) && self.modes.isSorted()",
            vec![json!({"modes": ["ro", "x"]})],
            vec![json!({"modes": ["x"]}), json!({"modes": ["x", "ro"]})],
        ),
        (
            json!({"weights": {"type": "array", "items": int}}),
            "self.weights.sum() == 100 && self.weights.min() >= 0",
            vec![json!({"weights": [40, 60]})],
            vec![json!({"weights": [1]}), json!({"weights": [-10, 110]})],
        ),
        (
            json!({"words": words}),
            "self.words.map(w, w.lowerAscii()).distinct().size() == self.words.size()",
            vec![json!({"words": ["a", "b"]})],
            vec![json!({"words": ["a", "A"]})],
        ),
        // Names that must be escaped, and numbers.
        (
            json!({"x-y": int, "in": text(), "a.b": text(), "c/d": text(), "__e": text(), "namespace": text()}),
            "self.x__dash__y > 0 && self.__in__ != '' && self.a__dot__b == 'z' && has(self.c__slash__d) && self.__underscores__e == 'e' && self.__namespace__ == 'n'",
            vec![json!({"x-y": 1, "in": "i", "a.b": "z", "c/d": "", "__e": "e", "namespace": "n"})],
            vec![json!({"x-y": 0, "in": "i", "a.b": "z", "c/d": "", "__e": "e", "namespace": "n"})],
        ),
        (
            json!({"ratio": {"type": "number"}}),
            "self.ratio / 2.0 < 0.6 && self.ratio >= 0",
            vec![json!({"ratio": 1}), json!({"ratio": 0.5})],
            vec![json!({"ratio": 2}), json!({"ratio": -0.5})],
        ),
        (
            json!({"start": {"type": "string", "format": "date-time"}, "end": {"type": "string", "format": "date-time"}}),
            "self.start < self.end && self.start.getFullYear() >= 2020",
            vec![json!({"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:01Z"})],
            vec![json!({"start": "2026-01-01T00:00:00Z", "end": "2025-01-01T00:00:01Z"})],
        ),
        (
            json!({"every": {"type": "string", "format": "duration"}}),
            "self.every >= duration('1m')",
            vec![json!({"every": "90s"})],
            vec![json!({"every": "5s"})],
        ),
        (
            json!({"a": {"type": "string", "nullable": true}}),
            "self.a == null || self.a != 'x'",
            vec![json!({"a": null}), json!({"a": "y"})],
            vec![json!({"a": "x"})],
        ),
        (
            json!({"labels": map}),
            "self.?labels['app'].orValue('web') == 'web'",
            vec![json!({}), json!({"labels": {"app": "web"}}), json!({"labels": {}})],
            vec![json!({"labels": {"app": "db"}})],
        ),
        (
            json!({"labels": map}),
            "self.labels.all(k, v, k.size() + v.size() < 8)",
            vec![json!({"labels": {"app": "web"}})],
            vec![json!({"labels": {"app": "website"}})],
        ),
    ]
}

/// Adds limits to lists, maps and strings, as in the original definitions. Without limits, a stock server rejects some
/// of the rules because of their estimated cost.
fn limited(mut schema: Value) -> Value {
    if let Some(of) = schema.as_object_mut() {
        let limit = match of.get("type").and_then(Value::as_str) {
            Some("array") => Some("maxItems"),
            Some("string") => Some("maxLength"),
            Some("object") if of.contains_key("additionalProperties") => Some("maxProperties"),
            _ => None,
        };
        if let Some(limit) = limit {
            of.entry(limit).or_insert_with(|| 64.into());
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = of.get_mut(keyword) {
                *inner = limited(inner.take());
            }
        }
        for (_, property) in of.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            *property = limited(property.take());
        }
    }
    schema
}

#[test]
fn published_rules_work() {
    for (properties, rule, passing, failing) in wild() {
        let spec = ruled(properties, rule);
        assert_eq!(refused(limited(spec.clone())), [""; 0], "{rule}");
        let of = schema(&spec);
        for good in passing {
            assert_eq!(check_rules(&of, &good, None), [""; 0], "{rule} of {good}");
        }
        for bad in failing {
            let messages = check_rules(&of, &bad, None);
            assert!(
                messages.len() == 1 && messages[0].starts_with("spec: "),
                "{rule} of {bad}: {messages:?}"
            );
        }
    }
}

#[test]
fn messages_of_failed_rules() {
    let of = |rule: Value| {
        schema(
            &json!({"type": "object", "properties": {"a": text(), "n": {"type": "integer"}}, "x-kubernetes-validations": [rule]}),
        )
    };
    for (rule, expected) in [
        (json!({"rule": " self.n > 5 "}), "spec: Invalid value: \"object\": failed rule: self.n > 5"),
        (json!({"rule": "self.n > 5", "message": " too few "}), "spec: Invalid value: \"object\": too few"),
        (
            json!({"rule": "self.n > 5", "messageExpression": "'%d is too few'.format([self.n])"}),
            "spec: Invalid value: \"object\": 1 is too few",
        ),
        (
            json!({"rule": "self.n > 5", "message": "plain", "messageExpression": "self.a"}),
            "spec: Invalid value: \"object\": plain",
        ),
        (
            json!({"rule": "self.n > 5", "message": "plain", "messageExpression": "'a\\nb'"}),
            "spec: Invalid value: \"object\": plain",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "reason": "FieldValueForbidden", "fieldPath": ".n"}),
            "spec.n: Forbidden: m",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "reason": "FieldValueRequired", "fieldPath": "['a']"}),
            "spec.a: Required value: m",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "reason": "FieldValueDuplicate"}),
            "spec: Duplicate value: \"object\"",
        ),
        (
            json!({"rule": "self.a == 'x'"}),
            "spec: Invalid value: \"object\": no such key: a evaluating rule: self.a == 'x'",
        ),
        (
            json!({"rule": "10 / (self.n - 1) == 0", "message": "m"}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: m",
        ),
    ] {
        assert_eq!(check_rules(&of(rule.clone()), &json!({"n": 1}), None), [expected], "{rule}");
    }
    // Rules are not evaluated if the object is invalid.
    let blocked = check_rules(&of(json!({"rule": "self.n > 5"})), &json!({"n": "one"}), None);
    assert_eq!(
        blocked[1],
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    );
}

#[test]
fn rules_apply_at_any_level() {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let of = schema(&json!({"type": "object", "properties": {
        "names": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": rule("self != 'bad'")}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": rule("self < 10")}},
        "either": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rule("self == 5 || self == '5'")},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": rule("self.kind == 'Pod' && self.metadata.name.startsWith('p-') && self.apiVersion == 'v1'")},
    }}));
    let template = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"a": "b"}}, "spec": {}});
    let good = json!({"names": ["a", "b"], "map": {"x": 1}, "either": "5", "template": template("p-1")});
    assert_eq!(check_rules(&of, &good, None), [""; 0]);
    let bad =
        json!({"names": ["a", "bad"], "map": {"x": 1, "y": 20}, "either": 6, "template": template("q")});
    let messages = check_rules(&of, &bad, None);
    let fields: Vec<&str> = messages.iter().map(|message| message.split_once(": ").unwrap().0).collect();
    assert_eq!(fields, ["spec.names[1]", "spec.map[y]", "spec.either", "spec.template"], "{messages:?}");
    assert!(messages[1].contains("Invalid value: \"integer\": failed rule: self < 10"), "{messages:?}");
    // A rule on the root can access the names in the metadata.
    let of = Schema::read(
        &json!({"type": "object", "properties": {"spec": {"type": "object"}}, "x-kubernetes-validations":
        [{"rule": "self.metadata.name.size() <= 3 && self.kind == 'A'", "message": "long"}]}),
    );
    let named = |name: &str| message_of(&of, name);
    assert_eq!(named("abc"), [""; 0]);
    assert_eq!(named("abcd"), [": Invalid value: \"object\": long"]);
}

fn message_of(of: &Schema, name: &str) -> Vec<String> {
    messages(&of.check(&object(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": name}})), None))
}

#[test]
fn transition_rules() {
    let fixed = schema(&json!({"type": "object", "properties": {
        "class": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "class is immutable"}]},
        "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "no shrinking"}]},
        "once": {"type": "string", "x-kubernetes-validations": [{"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'new'", "optionalOldSelf": true}]},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object",
            "properties": {"name": text(), "v": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "v"}]}},
    }}));
    let before = json!({"class": "a", "size": 3, "list": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]});
    assert_eq!(check_rules(&fixed, &before, None), [""; 0]);
    for (now, expected) in [
        (json!({"class": "a", "size": 4}), vec![]),
        (json!({}), vec![]),
        (
            json!({"class": "b", "size": 2}),
            vec![
                "spec.class: Invalid value: \"string\": class is immutable",
                "spec.size: Invalid value: \"integer\": no shrinking",
            ],
        ),
        (json!({"list": [{"name": "b", "v": 6}, {"name": "c", "v": 0}]}), vec![]),
        (
            json!({"list": [{"name": "b", "v": 4}, {"name": "a", "v": 1}]}),
            vec!["spec.list[0]: Invalid value: \"object\": v"],
        ),
        (json!({"once": "new"}), vec![]),
        (
            json!({"once": "old"}),
            vec![
                "spec.once: Invalid value: \"string\": failed rule: oldSelf.hasValue() ? self == oldSelf.value() : self == 'new'",
            ],
        ),
    ] {
        assert_eq!(check_rules(&fixed, &now, Some(&before)), expected, "{now}");
    }
    // Unchanged values are not validated again.
    let later = schema(
        &json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]}, "b": text()}}),
    );
    assert_eq!(check_rules(&later, &json!({"a": "y", "b": "2"}), Some(&json!({"a": "y"}))), [""; 0]);
    assert_eq!(check_rules(&later, &json!({"a": "z"}), Some(&json!({"a": "y"}))).len(), 1);
}

#[test]
fn invalid_rules_are_rejected_in_definitions() {
    let fields = json!({"a": text(), "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "object", "properties": {"b": text()}}}});
    for (rule, field, expected) in [
        (json!({"rule": ""}), "rule", "Required value: rule is not specified"),
        (json!({"rule": "self.a =="}), "rule", "compilation failed: ERROR: <input>:1:10: Syntax error"),
        (json!({"rule": "self.z == 'x'"}), "rule", "undefined field 'z'"),
        (
            json!({"rule": "self.a == 5"}),
            "rule",
            "found no matching overload for '_==_' applied to '(string, int)'",
        ),
        (json!({"rule": "self.a"}), "rule", "cel expression must evaluate to a bool"),
        (json!({"rule": "unknownFunction(self.a)"}), "rule", "undeclared reference to 'unknownFunction'"),
        (json!({"rule": "self.metadata.name == 'x'"}), "rule", "undefined field 'metadata'"),
        (
            json!({"rule": "self.n > 1", "messageExpression": "self.n"}),
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "self.n > 1", "messageExpression": "self.zz"}),
            "messageExpression",
            "messageExpression compilation failed",
        ),
        (json!({"rule": "self.n > 1", "message": "a\nb"}), "message", "message must not contain line breaks"),
        (json!({"rule": "self.n > 1", "message": "  "}), "message", "message must be non-empty if specified"),
        (
            json!({"rule": "self.n >\n 1"}),
            "message",
            "message must be specified if rule contains line breaks",
        ),
        (json!({"rule": "self.n > 1", "reason": "Because"}), "reason", "Unsupported value: \"Because\""),
        (json!({"rule": "self.n > 1", "fieldPath": ".zz"}), "fieldPath", "does not refer to a valid field"),
        (json!({"rule": "self.n > 1", "fieldPath": "n"}), "fieldPath", "expected [ or . but got: n"),
        (
            json!({"rule": "self.n > 1", "optionalOldSelf": true}),
            "optionalOldSelf",
            "may not be set if oldSelf is not used in rule",
        ),
    ] {
        let spec = json!({"type": "object", "properties": fields, "x-kubernetes-validations": [rule]});
        let messages = refused(spec);
        let place = format!("{AT}.x-kubernetes-validations[0].{field}: ");
        assert!(
            messages.len() == 1 && messages[0].starts_with(&place) && messages[0].contains(expected),
            "{rule}: {messages:?}"
        );
    }
    let inside = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}});
    let expected = format!(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within {AT}.properties[list].items"
    );
    assert!(refused(inside)[0].contains(&expected));
}
