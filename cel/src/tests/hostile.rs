//! Tests of hostile and random expressions: all terminate soon, and none panics.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::{bindings, environment};
use crate::{Budget, Error, Key, Program, Type, Value};

/// The cost limit of the API server.
const STEPS: u64 = 1_000_000;
/// Far above the expected duration, even on a busy machine without optimization.
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn expensive_expressions_exceed_the_budget() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let nest =
        |depth: usize| (0..depth).fold("true".to_owned(), |body, at| format!("{ten}.all(v{at}, {body})"));
    let doubled = (0..40)
        .fold("'aaaaaaaaaaaaaaaa'".to_owned(), |text, at| format!("cel.bind(s{at}, {text}, s{at} + s{at})"));
    let lists =
        (0..40).fold("[1, 2]".to_owned(), |list, at| format!("cel.bind(s{at}, {list}, s{at} + s{at})"));
    let replaced = (0..30).fold("'aa'".to_owned(), |text, _| format!("{text}.replace('a', 'aaaaaaaaaa')"));
    for source in [
        nest(12),
        format!("{doubled} == ''"),
        format!("{lists} == []"),
        format!("{replaced} == ''"),
        "lists.range(9223372036854775807).size() == 1".to_owned(),
        "lists.range(100000).distinct().size() == 1".to_owned(),
        format!("'{}'.matches('(((a*)*)*)*b')", "a".repeat(10_000)),
        format!("lists.range(1000).all(i, '{}'.matches('^(a{{1,100}}){{1,100}}$'))", "a".repeat(5_000)),
        "lists.range(100000).all(i, 'a'.matches('(a{100}){100}' + string(i)))".to_owned(),
        "'%s'.format([lists.range(300000).map(i, [i, i, i])]) == ''".to_owned(),
        "lists.range(300000).sort().isSorted() && lists.range(300000).map(i, i * 7).sort() == []".to_owned(),
    ] {
        let begin = Instant::now();
        if let Ok(program) = Program::compile(&source, &environment()) {
            let result = program.run(&bindings(), &mut Budget::of(STEPS));
            assert!(!matches!(result, Ok(Value::Bool(true))), "{}", &source[..40]);
        }
        assert!(begin.elapsed() < TIME_LIMIT, "{} took {:?}", &source[..40], begin.elapsed());
    }
    let program = Program::compile(&nest(12), &environment()).unwrap();
    let mut budget = Budget::of(1000);
    assert_eq!(program.run(&bindings(), &mut budget).unwrap_err(), Error::OutOfBudget);
    assert_eq!(budget.left(), 0);
}

/// Each function that traverses a long list is charged for it.
#[test]
fn every_traversal_is_charged() {
    const ITEMS: usize = 100_000;
    let long = Value::list(vec![Value::Int(1); ITEMS]);
    let wide = Value::map((0..ITEMS).map(|at| (Key::from(at.to_string().as_str()), Value::Null)));
    let environment = environment().with("long", Type::list(Type::Int)).with("wide", Type::Dyn);
    let bindings = bindings().with("long", long).with("wide", wide);
    for source in [
        "dyn(long).flatten() == []",
        "[1].transformMapEntry(i, v, wide).size() == 0",
        "sets.intersects([], long)",
        "long.min() == 2",
        "long.slice(0, 100000) == []",
    ] {
        let mut budget = Budget::of(STEPS);
        Program::compile(source, &environment).unwrap().run(&bindings, &mut budget).unwrap();
        assert!(STEPS - budget.left() >= ITEMS as u64, "{source} costs {}", STEPS - budget.left());
    }
    // Nested repetitions cost as much as if they were expanded.
    let source = format!("'{}'.matches('a{{150}}{{150}}b')", "a".repeat(10_000));
    let result = Program::compile(&source, &environment).unwrap().run(&bindings, &mut Budget::of(STEPS));
    assert_eq!(result.unwrap_err(), Error::OutOfBudget);
    // An early result ends the comprehension; evaluating all elements would take too long.
    let source = "lists.range(30000).all(i, long.exists(x, x == 1)) && lists.range(30000).all(i, wide.exists(k, true))";
    let begin = Instant::now();
    let result = Program::compile(source, &environment).unwrap().run(&bindings, &mut Budget::of(STEPS));
    assert!(matches!(result, Ok(Value::Bool(true))), "{result:?}");
    assert!(begin.elapsed() < TIME_LIMIT, "it took {:?}", begin.elapsed());
}

#[test]
fn doubling_variables_are_not_expanded() {
    let doubled = (0..40).fold("s39".to_owned(), |body, at| {
        let at = 39 - at;
        let of = if at == 0 { "['a']".to_owned() } else { format!("[s{0}, s{0}]", at - 1) };
        format!("cel.bind(s{at}, {of}, {body})")
    });
    let mut budget = Budget::of(STEPS);
    let value = Program::compile(&doubled, &environment()).unwrap().run(&bindings(), &mut budget).unwrap();
    assert_eq!(value.to_json(&mut budget).unwrap_err(), Error::OutOfBudget);
}

/// The result of an expression is the input of the next one, like variables of policies.
#[test]
fn nesting_of_values_is_limited() {
    let environment = environment().with("v", Type::Dyn);
    for source in [
        format!("{}v{}", "[".repeat(20), "]".repeat(20)),
        "{'a': {'a': {'a': v}}}".to_owned(),
        "Object{a: Object{a: v}}".to_owned(),
        "[1].map(i, v)".to_owned(),
        "optional.of(optional.of(v))".to_owned(),
    ] {
        let program = Program::compile(&source, &environment).unwrap();
        let step = |value: Value| program.run(&bindings().with("v", value), &mut Budget::of(STEPS));
        let error = (0..20_000).try_fold(Value::Null, |value, _| step(value)).unwrap_err();
        assert!(error.to_string().contains("nest deeper"), "{source}: {error}");
    }
}

/// Fragments of random expressions.
const PIECES: [&str; 60] = [
    "x",
    "pod",
    "words",
    "a",
    ".",
    ".?",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "?",
    ":",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    " in ",
    "1",
    "0",
    "-1",
    "9223372036854775807",
    "1.5",
    "2u",
    "'a'",
    "'ä€'",
    "b'\\xff'",
    "r'\\",
    "''",
    "null",
    "true",
    "has(",
    ".all(w,",
    ".map(w,",
    ".exists(i,w,",
    ".size()",
    ".matches('",
    ".format([",
    ".substring(",
    ".indexOf('",
    ".split(",
    ".replace('a',",
    "timestamp(",
    "duration('1h')",
    ".getHours()",
    "int(",
    "string(",
    ".orValue(",
    "cel.bind(",
    "Object{a:",
];

#[test]
fn any_schedule_has_a_result() {
    let mut random = Rng::with_seed(20_261_121);
    let (environment, bindings) = (environment(), bindings());
    let (mut compiled, mut ran) = (0, 0);
    for _ in 0..30_000 {
        let source: String = (0..random.usize(1..14)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        if let Ok(program) = Program::compile(&source, &environment) {
            compiled += 1;
            ran += usize::from(program.run(&bindings, &mut Budget::of(10_000)).is_ok());
        }
    }
    assert!(compiled > 100 && ran > 10, "{compiled} compiled, {ran} ran");
}

#[test]
fn expressions_of_random_values_are_answers() {
    const VALUES: [&str; 18] = [
        "x",
        "x.a",
        "x.b",
        "x.c",
        "x.d",
        "x.deep",
        "x.big",
        "words",
        "pod.labels",
        "'täxt'",
        "''",
        "-1",
        "5u",
        "1e308",
        "duration('1h')",
        "timestamp(0)",
        "optional.none()",
        "dyn([[1], 'a'])",
    ];
    const FORMS: [&str; 34] = [
        "A + B",
        "A - B",
        "A * B",
        "A / B",
        "A % B",
        "A < B",
        "A == B",
        "A in B",
        "-A",
        "!A",
        "A[B]",
        "A.?k",
        "size(A)",
        "A.all(e, e == B)",
        "A.map(e, e + B)",
        "A.substring(B)",
        "A.substring(B, B)",
        "A.indexOf(B)",
        "A.lastIndexOf(B, 1)",
        "A.split(B)",
        "A.join(B)",
        "A.replace(A, B)",
        "A.charAt(B)",
        "A.findAll(B, 2)",
        "A.format([B])",
        "A.format(B)",
        "A.sum()",
        "A.max()",
        "A.sort()",
        "A.slice(0, B)",
        "int(A)",
        "string(A)",
        "A.getMonth()",
        "math.abs(A)",
    ];
    let mut random = Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut source = FORMS[random.usize(..FORMS.len())].to_owned();
        for _ in 0..random.usize(..3) {
            source = source.replacen('A', &format!("({})", FORMS[random.usize(..FORMS.len())]), 1);
        }
        // With unknown types, all checks happen at run time.
        let source: String = source
            .chars()
            .map(|c| match c {
                'A' | 'B' => format!("dyn({})", VALUES[random.usize(..VALUES.len())]),
                c => c.to_string(),
            })
            .collect();
        if let Ok(program) = Program::compile(&source, &environment()) {
            let _ = program.run(&bindings(), &mut Budget::of(100_000));
        }
    }
}
