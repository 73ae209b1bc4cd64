//! Tests of operators, fields, lists, maps and macros.

use super::{STEPS, all_fail, all_true, run};
use crate::{Budget, Value};

#[test]
fn literals_and_operators() {
    all_true(&[
        "1 + 2 * 3 == 7",
        "-9223372036854775808 < 0 && 0xff == 255 && 5u == 5u && 1.5e3 == 1500.0",
        "7 / 2 == 3 && -7 % 3 == -1 && 7.0 / 2.0 == 3.5",
        "1 == 1.0 && 1u == 1 && 1 < 1.5 && x.big > 9223372036854775807",
        "'a' + \"b\" == r'ab' && '''it's''' == \"it's\" && '\\u00e9\\x41\\101\\n'.size() == 4",
        "b'ab' == b'\\x61b' && size(b'\\xff') == 1",
        "r'\\d' == '\\\\d'",
        "true ? true : false",
        "!false && !!true",
        "1 in [1, 2] && !(3 in [1, 2]) && 'app' in pod.labels",
        "[1, 2] + [3] == [1, 2, 3] && [1] != [1, 2]",
        "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
        "null == null && x.c == null",
        "-pod.replicas == -3",
        "1 < 2 == true",
        "// a comment\n true",
    ]);
}

#[test]
fn fields_elements_and_presence() {
    all_true(&[
        "pod.name == 'web-1' && pod.labels.app == 'web' && pod.labels['tier'] == 'front'",
        "has(pod.labels.app) && !has(pod.labels.none) && !has(x.none) && has(x.c)",
        "x.b[0] == 1 && x['b'][2] == 3 && x.deep.er == 'here'",
        "x.b[1.0] == 2 && {1: 'a'}[1u] == 'a'",
        "x.?none.orValue(5) == 5 && x.?a.orValue(5) == 1 && x.?deep.?er.orValue('') == 'here'",
        "x.?none.er.hasValue() == false && x[?'a'].value() == 1 && x.b[?9].hasValue() == false",
        "[?x.?none, ?x.?a] == [1] && {?'k': x.?none} == {} && {?'k': x.?a} == {'k': 1}",
        "x.?a.optMap(v, v + 1).value() == 2 && !x.?none.optMap(v, v + 1).hasValue()",
        "x.?deep.optFlatMap(d, d.?er).value() == 'here'",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().or(optional.of(2)).value() == 2",
        "!optional.ofNonZeroValue('').hasValue()",
        "Object.spec{replicas: 3, ?none: x.?none}.replicas == 3",
        "x.`a` == 1",
    ]);
    all_fail(&[
        ("x.none == 1", "no such key: none"),
        ("x.b[7] == 1", "index out of bounds: 7"),
        ("x['zz'] == 1", "no such key: zz"),
        ("x.a.b == 1", "no such overload"),
        ("x.?none.value() == 1", "optional.none() dereference"),
    ]);
}

#[test]
fn comprehensions_over_lists_and_maps() {
    all_true(&[
        "words.all(w, w.size() == 1) && words.exists(w, w == 'c') && words.exists_one(w, w == 'b')",
        "!words.exists_one(w, w == 'a') && [].all(e, false) && ![].exists(e, true)",
        "words.map(w, w + w) == ['bb', 'aa', 'cc', 'aa'] && words.filter(w, w != 'a') == ['b', 'c']",
        "words.map(w, w != 'a', w + '!') == ['b!', 'c!']",
        "pod.labels.all(k, pod.labels[k] != '') && pod.labels.map(k, k) == ['app', 'tier']",
        "words.all(i, w, i < 4 && w != '') && pod.labels.exists(k, v, k == 'app' && v == 'web')",
        "words.transformList(i, w, i > 1, w) == ['c', 'a']",
        "pod.labels.transformMap(k, v, v + '!') == {'app': 'web!', 'tier': 'front!'}",
        "words.filter(w, w != 'a').transformMapEntry(i, w, {w: i}) == {'b': 0, 'c': 1}",
        "[[1, 2], [3]].all(l, l.all(n, n > 0))",
        "cel.bind(n, pod.replicas * 2, n + n == 12)",
        // An operand that decides the result hides errors of the other one.
        "x.none == 1 || true",
        "!(x.none == 1 && false)",
        "[0, 1].exists(n, 1 / n == 1) && ![0, 2].all(n, 1 / n == 1)",
    ]);
    all_fail(&[
        ("x.none == 1 || false", "no such key: none"),
        ("[1, 0].all(n, 1 / n == 1)", "division by zero"),
        ("x.a.all(e, true)", "no such overload"),
    ]);
}

#[test]
fn numbers_out_of_range_are_reported() {
    all_fail(&[
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775807 - 2 == 0", "integer overflow"),
        ("9223372036854775807 * 2 == 0", "integer overflow"),
        ("-(-9223372036854775807 - 1) == 0", "integer overflow"),
        ("(-9223372036854775807 - 1) / -1 == 0", "integer overflow"),
        ("(-9223372036854775807 - 1) % -1 == 0", "integer overflow"),
        ("1u - 2u == 0u", "integer overflow"),
        ("5 % 0 == 0", "modulus by zero"),
        ("int(1e30) == 0", "integer overflow"),
        ("x.a + x.d == 2.5", "no such overload"),
        ("{'a': 1, 'a': 2} == {}", "already exists"),
    ]);
}

#[test]
fn json_values_round_trip() {
    let value = run("{'a': [1, 2.5, 'x', null, true], 'b': {'c': x.big}}").unwrap();
    let expected =
        serde_json::json!({"a": [1, 2.5, "x", null, true], "b": {"c": 18_446_744_073_709_551_615_u64}});
    let mut budget = Budget::of(STEPS);
    assert_eq!(value.to_json(&mut budget).unwrap(), expected);
    assert!(Value::from(&expected).to_json(&mut budget).unwrap() == expected);
}
