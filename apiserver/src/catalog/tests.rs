//! Rows are found by path, kind and storage name, built-in or not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use super::{Catalog, Defined};
use crate::resource::{Conversion, Field, Resource};

struct Same;

impl Conversion for Same {
    fn to_served(
        &self,
        stored: serde_json::Map<String, serde_json::Value>,
    ) -> serde_json::Map<String, serde_json::Value> {
        stored
    }

    fn to_stored(
        &self,
        shown: serde_json::Map<String, serde_json::Value>,
    ) -> serde_json::Map<String, serde_json::Value> {
        shown
    }
}

fn widget(version: &'static str, kind: &'static str) -> Resource {
    Resource::new("example.com", version, kind, "widgets", "widget")
}

#[test]
fn rows_are_found_and_the_first_of_a_path_counts() {
    let catalog = Catalog::new([
        Resource::new("", "v1", "Pod", "pods", "pod"),
        widget("v1", "Widget").fields(&[Field::path("spec.color")]),
    ]);
    let other = widget("v1", "Other");
    let beta = widget("v1beta1", "Widget")
        .fields(&[Field::path("spec.color"), Field::path("spec.size")])
        .stored_as("widgets.example.com", "example.com/v1", Arc::new(Same));
    let defined = Defined::from([("me".to_owned(), vec![Arc::new(other), Arc::new(beta)])]);
    let rows = catalog.with(&defined);
    let kind = |version| rows.find("example.com", version, "widgets").map(|row| row.kind.to_string());
    assert_eq!((kind("v1").as_deref(), kind("v1beta1").as_deref()), (Some("Widget"), Some("Widget")));
    assert!(kind("v2").is_none() && rows.find("", "v1", "widgets").is_none());
    assert_eq!(rows.kind("", "v1", "Pod").unwrap().plural, "pods");
    assert_eq!(rows.all().len(), 3);
    let fields = rows.fields("widgets.example.com").unwrap();
    assert_eq!(fields.as_ref(), [Field::path("spec.color"), Field::path("spec.size")]);
    assert!(!rows.holds("gadgets.example.com"));
    assert!(!catalog.rows().all().iter().any(|row| row.version == "v1beta1"), "it is not published yet");
}
