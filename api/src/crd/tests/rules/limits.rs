//! Tests of rules that cannot be evaluated and rules that cost too much.

use super::*;

#[test]
fn stored_rule_that_does_not_compile_rejects_every_object() {
    let of = schema(&ruled(json!({"a": text()}), "self.b == 'x'"));
    let messages = check_rules(&of, &json!({"a": "x"}), None);
    assert!(
        messages.len() == 1
            && messages[0].contains("rule compile error: ")
            && messages[0].contains("undefined field 'b'"),
        "{messages:?}"
    );
}

#[test]
fn rule_over_its_cost_limit_is_stopped() {
    let nested = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a != 'x'))))";
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": text()}}, "x-kubernetes-validations": [{"rule": nested}, {"rule": "false"}]});
    let many: Vec<String> = (0..500).map(|at| at.to_string()).collect();
    let messages = check_rules(&schema(&spec), &json!({"l": many}), None);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0]
            .contains("no further validation rules will be run due to call cost exceeds limit for rule"),
        "{messages:?}"
    );
}

#[test]
fn rules_with_a_too_high_estimated_cost_are_rejected() {
    let nested = "self.l.all(a, self.l.all(b, a != b || a == 'x'))";
    let list = |limits: Value| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        list["maxItems"] = limits["maxItems"].clone();
        list["items"]["maxLength"] = limits["maxLength"].clone();
        if limits["maxItems"].is_null() {
            list.as_object_mut().unwrap().remove("maxItems");
            list["items"].as_object_mut().unwrap().remove("maxLength");
        }
        json!({"type": "object", "properties": {"l": list}, "x-kubernetes-validations": [{"rule": nested}]})
    };
    let advice = "(try simplifying the rule(s), or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    // A stock server rejects this without limits, and accepts it with limits.
    let refusals = refused(list(json!({})));
    assert_eq!(
        refusals[0],
        format!(
            "{AT}.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
        )
    );
    assert!(refusals.iter().any(|why| why.contains("Forbidden: contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema")), "{refusals:?}");
    assert!(refusals.iter().any(|why| why.contains("Forbidden: estimated rule & messageExpression cost total exceeds budget by factor of more than 100x")), "{refusals:?}");
    assert_eq!(refused(list(json!({"maxItems": 100, "maxLength": 64}))), Vec::<String>::new());
    // The cost of a rule is multiplied by the number of values.
    let inner = |most: Value| {
        let items = ruled(json!({"a": text()}), "self.a.matches('^[a-z]{1,20}$')");
        let mut list = json!({"type": "array", "items": items, "maxItems": most});
        if most.is_null() {
            list.as_object_mut().unwrap().remove("maxItems");
        }
        json!({"type": "object", "properties": {"l": list}})
    };
    assert!(refused(inner(Value::Null))[0].contains("estimated rule cost exceeds budget by factor of"));
    assert_eq!(refused(inner(json!(1))), Vec::<String>::new());
    // Rules that stock clusters accept without limits: a comprehension over a list, an enum, a pattern for one string.
    for (properties, rule) in [
        (json!({"l": {"type": "array", "items": {"type": "integer"}}}), "self.l.all(a, a > 1)"),
        (json!({"a": text(), "b": text()}), "has(self.a) && self.a == self.b"),
        (json!({"a": text()}), "self.a.matches('^[a-z]+$')"),
    ] {
        assert_eq!(refused(ruled(properties, rule)), Vec::<String>::new(), "{rule}");
    }
}
