//! Tests of cost estimates, compared with stock API servers.

use std::sync::Arc;

use crate::{Environment, Program, SizeEstimate, Type};

fn cost(source: &str) -> u64 {
    let environment = Environment::default()
        .with("text", Type::String)
        .with("list", Type::list(Type::String))
        .with("map", Type::map(Type::Int))
        .with("number", Type::Int);
    let variables = [
        ("text", SizeEstimate::Text(1000)),
        ("list", SizeEstimate::List(50, Arc::new(SizeEstimate::Text(100)))),
        ("map", SizeEstimate::Map(20, Arc::new(SizeEstimate::Scalar))),
        ("number", SizeEstimate::Scalar),
    ];
    let program =
        Program::compile(source, &environment).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    program.max_cost(&variables)
}

#[test]
fn each_part_costs_what_a_stock_server_estimates() {
    for (source, expected) in [
        ("true", 0),
        ("number", 1),
        ("number + 1 < 3", 3),
        ("text == 'ten bytes.'", 2),
        ("text + text == text", 3 + 200 + 100),
        ("text.startsWith('ab')", 2),
        ("text.matches('[a-z]{8}')", 1 + 101 * 2),
        ("text.contains('abc')", 1 + 100),
        ("text in list", 2 + 50),
        ("number > 1 ? text == 'a' : list == list", 2 + 7),
        ("[1, 2, 3].size() == 3", 10 + 1 + 1),
        // Three units for the accumulator, plus the body.
        ("list.all(one, true)", 1 + 50 * 3 + 1),
        ("list.all(one, one == 'a')", 1 + 50 * (3 + 2) + 1),
        ("list.exists(one, number == 1)", 1 + 50 * (4 + 2) + 1),
        ("map.all(key, map[key] > 1)", 1 + 20 * (3 + 4) + 1),
        ("list.map(one, one.size()).sum() > 1", 1 + 50 * (12 + 2) + 1 + 50 + 1),
    ] {
        assert_eq!(cost(source), expected, "{source}");
    }
}

#[test]
fn loops_in_loops_multiply_and_never_overflow() {
    let inner = "list.all(a, list.all(b, a != b || a == 'x'))";
    assert!(cost(inner) > 50 * 50 * 10, "{}", cost(inner));
    let environment = Environment::default().with("x", Type::list(Type::Dyn));
    let deep = (0..8).fold("true".to_owned(), |body, depth| format!("x.all(v{depth}, {body})"));
    let program = Program::compile(&deep, &environment).unwrap();
    assert_eq!(program.max_cost(&[("x", SizeEstimate::Any)]), u64::MAX);
}
