//! Tests of the Kubernetes CEL libraries.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use cel::{Bindings, Budget, Program, Value};
use fastrand::Rng;

use super::{EXPRESSION_COST_LIMIT, MAX_MESSAGE_BYTES, environment, message};

fn run(source: &str) -> Result<Value, cel::Error> {
    let program =
        Program::compile(source, &environment()).unwrap_or_else(|error| panic!("{source}: {error}"));
    program.run(&Bindings::default(), &mut Budget::of(10_000))
}

#[test]
fn amounts_addresses_urls_versions_and_names() {
    for source in [
        "quantity('1.5Gi').isGreaterThan(quantity('1Gi')) && quantity('1k').compareTo(quantity('1000')) == 0",
        "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').sub(20000) == quantity('30k')",
        "quantity('1').asInteger() == 1 && !quantity('50m').isInteger() && quantity('50m').asApproximateFloat() == 0.05",
        "quantity('-1').sign() == -1 && !isQuantity('much') && string(quantity('1Gi')) == '1Gi' && quantity('1') == quantity('1000m')",
        "ip('127.0.0.1').isLoopback() && ip('fe80::1').isLinkLocalUnicast() && ip('0.0.0.0').isUnspecified() && ip('8.8.8.8').isGlobalUnicast()",
        "ip('ff02::1').isLinkLocalMulticast() && ip('::1').family() == 6 && string(ip('1.2.3.4')) == '1.2.3.4' && ip('1.2.3.4') != ip('1.2.3.5')",
        "!isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && !ip.isCanonical('2001:0db8::1') && ip.isCanonical('2001:db8::1')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0')) && cidr('0.0.0.0/0').containsIP('1.1.1.1')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('fd00::/7').prefixLength() == 7 && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "!isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08') && !cidr('::/0').containsIP(ip('1.1.1.1')) && cidr('10.0.0.1/32').ip() == ip('10.0.0.1')",
        "url('https://me@a.b:80/x y?k=v&k=w%20z').getHost() == 'a.b:80' && url('https://a.b:80/').getPort() == '80'",
        "url('https://a.b/x y?k=v&k=w%20z').getQuery() == {'k': ['v', 'w z']} && url('https://a.b/x y').getEscapedPath() == '/x%20y'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('/path').getScheme() == '' && isURL('mailto:me') && !isURL('a b') && !isURL('http://a b/') && !isURL('/%zz')",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.2.3-rc.2').compareTo(semver('1.2.3-rc.10')) == -1",
        "!isSemver('v1.2') && isSemver('v1.2', true) && semver('v1.2', true) == semver('1.2.0') && semver('1.2.3+build').patch() == 3 && !isSemver('01.2.3')",
        "format.named('dns1123Label').hasValue() && !format.named('nothing').hasValue() && format.named('dns1123Label').value().validate('A').hasValue()",
        "!format.dns1123Subdomain().validate('a.b').hasValue() && !format.labelValue().validate('').hasValue() && format.dns1035Label().validate('1a').hasValue()",
        "!format.qualifiedName().validate('a.b/C_d').hasValue() && !format.dns1123LabelPrefix().validate('a-').hasValue() && format.uuid().validate('x').hasValue()",
        "!format.date().validate('2026-01-01').hasValue() && format.datetime().validate('today').hasValue() && !format.byte().validate('aGk=').hasValue()",
        "type(ip('::1')) != type(cidr('::/0'))",
    ] {
        let found = run(source);
        assert!(matches!(found, Ok(Value::Bool(true))), "{source} gives {found:?}");
    }
    for (source, expected) in [
        ("quantity('much') == quantity('1')", "is not a number"),
        ("quantity('50m').asInteger() == 1", "cannot convert value to integer"),
        ("ip('x') == ip('::1')", "parse error"),
        ("url('x y') == url('/')", "invalid URI"),
        ("semver('one') == semver('1.0.0')", "invalid semantic version \"one\""),
    ] {
        let error = run(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn any_text_has_a_result() {
    const LETTERS: [&str; 24] = [
        "a", "Z", "1", "0", ".", "-", "/", ":", "[", "]", "%", "%4", "?", "&", "=", "@", "v", "+", "ä", "€",
        "Gi", "e9", "::", " ",
    ];
    let mut random = Rng::with_seed(3);
    let source = "[isQuantity(t), isIP(t), isCIDR(t), isURL(t), isSemver(t), isSemver(t, true), format.qualifiedName().validate(t).hasValue(), \
                  format.dns1123SubdomainPrefix().validate(t).hasValue(), format.uri().validate(t).hasValue(), isURL(t) && url(t).getQuery() == {}, \
                  isURL(t) && url(t).getEscapedPath() + url(t).getHostname() + url(t).getPort() == t, isQuantity(t) && quantity(t).sub(5).add(quantity(t)).sign() > 9]";
    let program = Program::compile(source, &environment().with("t", cel::Type::String)).unwrap();
    for _ in 0..5_000 {
        let text: String = (0..random.usize(..8)).map(|_| LETTERS[random.usize(..LETTERS.len())]).collect();
        let result =
            program.run(&Bindings::default().with("t", Value::from(text.as_str())), &mut Budget::of(10_000));
        assert!(result.is_ok(), "{text}: {result:?}");
    }
}

#[test]
fn long_strings_are_charged() {
    const BYTES: usize = 1_000_000;
    /// Far above the time for reading a text once.
    const TIME_LIMIT: Duration = Duration::from_secs(20);
    let environment = environment().with("t", cel::Type::String);
    let run = |source: &str, text: &str| {
        let mut budget = Budget::of(EXPRESSION_COST_LIMIT);
        let bindings = Bindings::default().with("t", Value::from(text));
        let outcome = Program::compile(source, &environment).unwrap().run(&bindings, &mut budget);
        (outcome, EXPRESSION_COST_LIMIT - budget.left())
    };
    let long = "a".repeat(BYTES);
    for (source, text, times) in [
        ("isIP(t) || isCIDR(t)", long.clone(), 2),
        ("isSemver(t)", format!("1.1.1-{long}"), 1),
        ("[url(t).getHost(), url(t).getHostname(), url(t).getPort()] == []", format!("http://{long}"), 6),
    ] {
        let (outcome, steps) = run(source, &text);
        assert!(
            outcome.is_ok() && steps >= (times * BYTES / 10) as u64,
            "{source} costs {steps}: {outcome:?}"
        );
    }
    let query: String = (0..BYTES / 8).map(|at| format!("&{at}")).collect();
    let begin = Instant::now();
    let (outcome, _) = run("url(t).getQuery().size() == 125000", &format!("/?{query}"));
    assert!(matches!(outcome, Ok(Value::Bool(true))), "{outcome:?}");
    assert!(begin.elapsed() < TIME_LIMIT, "it took {:?}", begin.elapsed());
}

#[test]
fn validation_message_is_one_nonempty_line() {
    let outcome = |made: &Value, plain| message(Some(made.clone()), plain, || "it failed".to_owned());
    assert_eq!(outcome(&Value::from(" the value is wrong "), "plain"), "the value is wrong");
    for other in
        [Value::from(" "), Value::from("a\nb"), Value::from("x".repeat(MAX_MESSAGE_BYTES + 1)), Value::Int(1)]
    {
        assert_eq!(outcome(&other, "plain"), "plain");
        assert_eq!(outcome(&other, ""), "it failed");
    }
}
