//! Tests of compile errors.

use super::environment;
use crate::{MAX_LENGTH, Program, Type};

#[test]
fn undeclared_names_are_rejected() {
    for (source, expected) in [
        ("", "mismatched input '<EOF>'"),
        ("1 +", "Syntax error"),
        ("(1", "expecting ')'"),
        ("a = b", "mismatched input '='"),
        ("'abc", "unterminated string"),
        ("1 @ 2", "token recognition error at: '@'"),
        ("99999999999999999999 == 1", "invalid int literal"),
        ("if == 1", "reserved identifier: if"),
        ("nobody == 1", "undeclared reference to 'nobody'"),
        ("nothing(1)", "undeclared reference to 'nothing'"),
        ("pod.name.unheardOf()", "undeclared reference to 'unheardOf'"),
        ("pod.nome == ''", "undefined field 'nome'"),
        ("has(pod.nome)", "undefined field 'nome'"),
        ("has(pod)", "invalid argument to has() macro"),
        ("pod.name.first == ''", "type 'string' does not support field selection"),
        ("pod.replicas == 'three'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("pod.replicas + 'a' == ''", "'_+_' applied to '(int, string)'"),
        ("pod.name && true", "expected type 'bool' but found 'string'"),
        ("pod.name.startsWith(1)", "'startsWith' applied to 'string.(int)'"),
        ("pod.name.contains()", "'contains' applied to 'string.()'"),
        ("size(1) == 1", "'size' applied to '(int)'"),
        ("pod.all(k, true)", "cannot be range of a comprehension"),
        ("words.all(w, w)", "expected type 'bool' but found 'string'"),
        ("words.all(1, true)", "argument must be a simple name"),
        ("words.all(w, w, true)", "two variables of a macro have the same name"),
        ("words.map(w, v)", "undeclared reference to 'v'"),
        ("true ? 1 : 'a'", "'_?_:_'"),
        ("pod['name'] == ''", "'_[_]' applied to '(Pod, string)'"),
        ("'a' in pod", "'@in'"),
        ("pod.name.matches('(')", "error parsing regexp"),
        ("pod.name.matches('\\\\p{Greek}')", "error parsing regexp"),
        ("timestamp('yesterday') == timestamp(0)", "cannot parse \"yesterday\""),
        ("duration('1 day') == duration('1s')", "invalid duration"),
        ("duration('170141183460469231731687303715884105.999us') == duration('1s')", "invalid duration"),
        ("timestamp(0).getHours('Europe/Berlin') == 1", "use UTC or an offset"),
        ("Strange{a: 1} == null", "undeclared reference to 'Strange'"),
        ("- -'a' == 1", "'-_'"),
    ] {
        let error = Program::compile(source, &environment()).map(drop).unwrap_err();
        assert!(error.message.contains(expected), "{source} says {error}");
        assert!(error.message.starts_with("ERROR: <input>:1:"), "{error}");
    }
}

#[test]
fn errors_show_their_position() {
    let error = Program::compile("true &&\n  pod.nome == ''", &environment()).map(drop).unwrap_err();
    assert_eq!(error.message, "ERROR: <input>:2:6: undefined field 'nome'\n |   pod.nome == ''\n | .....^");
}

#[test]
fn long_or_deep_expressions_are_rejected() {
    let long = format!("'{}' == ''", "a".repeat(MAX_LENGTH));
    let many = |part: &str, close: &str| format!("{}1{} == 1", part.repeat(5_000), close.repeat(5_000));
    let chain = format!("x{} == 1", ".a".repeat(5_000));
    let sum = format!("1{} == 1", " + 1".repeat(2_000));
    let minus = format!("{}1 == 1", "-".repeat(9_000));
    let not = format!("{}true", "!".repeat(9_000));
    let ternary = "true ? 1 : ".repeat(1_000) + "1";
    for source in [
        long,
        many("(", ")"),
        many("[", "]"),
        many("{1:", "}"),
        many("size(", ")"),
        chain,
        sum,
        minus,
        not,
        ternary,
    ] {
        assert!(Program::compile(&source, &environment()).is_err(), "{}", &source[..20]);
    }
    // Many operands of one operator are not nested.
    let beside = vec!["x.a == 1"; 500].join(" && ");
    assert!(Program::compile(&beside, &environment()).is_ok());
    let list = format!("[{}] == []", vec!["1"; 1_000].join(", "));
    assert!(Program::compile(&list, &environment()).is_ok());
}

#[test]
fn expressions_have_their_result_types() {
    for (source, expected) in [
        ("pod.name", Type::String),
        ("words.map(w, w.size())", Type::list(Type::Int)),
        ("x.a", Type::Dyn),
        ("x.?a", Type::optional(Type::Dyn)),
        ("words[0]", Type::String),
        ("words.min()", Type::String),
        ("pod.labels[?'a'].orValue('')", Type::String),
        ("{'a': 1}", Type::map(Type::Int)),
        ("timestamp(0) - timestamp(1)", Type::Duration),
        ("[1, 'a'][0]", Type::Dyn),
    ] {
        let program = Program::compile(source, &environment()).unwrap();
        assert_eq!(*program.returns(), expected, "{source}");
    }
    let program = Program::compile("words.all(w, w != pod.name)", &environment()).unwrap();
    assert!(program.names("pod") && program.names("words") && !program.names("x"));
}
