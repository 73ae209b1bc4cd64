//! Parsing of resource arguments.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::{wanted, with_type};

fn read(resource: &str, names: &[&str]) -> Result<String, String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let wanted = wanted(resource, &names).map_err(|error| error.to_string())?;
    let one = |wanted: &super::Selection| format!("{} {:?}", wanted.named.plural, wanted.names);
    Ok(wanted.iter().map(one).collect::<Vec<_>>().join(" "))
}

#[test]
fn resources_by_all_their_names() {
    for (text, expected) in [
        ("pods", "pods []"),
        ("po", "pods []"),
        ("Pod", "pods []"),
        ("no", "nodes []"),
        ("ev", "events []"),
        ("cm,secret", "configmaps [] secrets []"),
    ] {
        assert_eq!(read(text, &[]).unwrap(), expected, "{text}");
    }
}

#[test]
fn names_after_and_behind_a_slash() {
    assert_eq!(read("pod", &["a", "b"]).unwrap(), r#"pods ["a", "b"]"#);
    assert_eq!(read("pod/a", &["cm/c", "po/b"]).unwrap(), r#"pods ["a", "b"] configmaps ["c"]"#);
    assert!(read("pod/a", &["b"]).unwrap_err().contains("\"b\" lacks a resource type"));
    assert!(read("services", &[]).unwrap_err().starts_with("unknown resource \"services\""));
}

#[test]
fn items_get_the_type_that_their_list_names() {
    let list = json!({"apiVersion": "v1", "kind": "PodList"});
    let item = with_type(json!({"metadata": {"name": "a"}}), &list);
    assert_eq!(item, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
    let own = json!({"apiVersion": "example.com/v1", "kind": "Ship"});
    assert_eq!(with_type(own.clone(), &list), own);
}
