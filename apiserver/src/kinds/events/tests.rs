//! Field names of events, in both directions.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

#[test]
fn every_field_has_its_name_in_both_groups() {
    let all = |table: &str| -> Map<String, Value> {
        let of = api::schema::all().kind(table, "v1", "Event").unwrap();
        of.fields().iter().map(|field| (field.name.to_owned(), json!(field.name))).collect()
    };
    let fields = |event: &Map<String, Value>| {
        let mut fields: Vec<String> = event.keys().cloned().collect();
        fields.sort();
        fields
    };
    let (core, newer) = (all(""), all("events.k8s.io"));
    assert_eq!(fields(&EventsV1.to_served(core.clone())), fields(&newer));
    assert_eq!(fields(&EventsV1.to_stored(newer.clone())), fields(&core));
    let mut there_and_back = EventsV1.to_stored(EventsV1.to_served(core.clone()));
    there_and_back.insert("apiVersion".to_owned(), "apiVersion".into());
    assert_eq!(there_and_back, core);
}
