//! Tests of evaluation, compile errors and limits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cost;
mod hostile;
mod language;
mod library;
mod refused;

use serde_json::json;

use crate::{Bindings, Budget, Environment, Error, Program, Type, Value};

/// A budget that is sufficient for all cases.
const STEPS: u64 = 100_000;

fn environment() -> Environment {
    let pod = [("name", Type::String), ("replicas", Type::Int), ("labels", Type::map(Type::String))];
    let pod = Type::object("Pod", pod.map(|(name, of)| (name.to_owned(), of)));
    Environment { constructs: &["Object"], ..Environment::default() }
        .with("x", Type::Dyn)
        .with("pod", pod)
        .with("words", Type::list(Type::String))
}

fn bindings() -> Bindings {
    let x = json!({"a": 1, "b": [1, 2, 3], "c": null, "d": 1.5, "deep": {"er": "here"}, "big": 18_446_744_073_709_551_615_u64});
    let pod = json!({"name": "web-1", "replicas": 3, "labels": {"app": "web", "tier": "front"}});
    let words = json!(["b", "a", "c", "a"]);
    let named = [("x", x), ("pod", pod), ("words", words)];
    named.iter().fold(Bindings::default(), |all, (name, value)| all.with(name, Value::from(value)))
}

fn run(source: &str) -> Result<Value, Error> {
    let program =
        Program::compile(source, &environment()).unwrap_or_else(|error| panic!("{source}: {error}"));
    program.run(&bindings(), &mut Budget::of(STEPS))
}

/// Expects that all expressions are true.
fn all_true(cases: &[&str]) {
    for source in cases {
        let found = run(source);
        assert!(matches!(found, Ok(Value::Bool(true))), "{source} gives {found:?}");
    }
}

/// Expects that all expressions fail with these errors.
fn all_fail(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let error = run(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source} says {error}");
    }
}
