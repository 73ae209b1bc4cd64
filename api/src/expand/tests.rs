//! Tests of variable expansion.

use std::borrow::Cow;

use super::{expand, expand_all};

fn lookup(name: &str) -> Option<&'static str> {
    match name {
        "A" => Some("a"),
        "EMPTY" => Some(""),
        "REF" => Some("$(A)"),
        "odd name" => Some("odd"),
        _ => None,
    }
}

#[test]
fn each_form() {
    for (text, expanded) in [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "a"),
        ("x$(A)y$(A)", "xaya"),
        ("[$(EMPTY)]", "[]"),
        ("$(NONE)", "$(NONE)"),
        ("$(REF)", "$(A)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$", "$"),
        ("$$", "$"),
        ("end$", "end$"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(odd name)", "odd"),
        ("$($(A))", "$($(A))"),
        ("é$(A)é", "éaé"),
    ] {
        assert_eq!(expand(text, lookup), expanded, "{text}");
    }
    assert!(matches!(expand("plain", lookup), Cow::Borrowed(_)));
}

#[test]
fn an_unknown_variable_is_named_where_it_matters() {
    assert_eq!(expand_all("$(A)/$(NONE)/$(OTHER)", lookup), Err("NONE".to_owned()));
    assert_eq!(expand_all("logs/$(A)/$$(NONE)", lookup), Ok("logs/a/$(NONE)".to_owned()));
    assert_eq!(expand_all("plain", lookup), Ok("plain".to_owned()));
}
