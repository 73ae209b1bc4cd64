//! Manifests and what becomes of them.

use super::decode;
use crate::object::Object;

/// Decodes and compares: objects as `Kind namespace/name`, problems as they print.
fn check(manifest: &str, objects: &[&str], problems: &[&str]) {
    let decoded = decode(manifest.as_bytes());
    let names: Vec<String> = decoded.objects.iter().map(|object| object.object_name().to_string()).collect();
    let said: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
    assert_eq!((names, said), (strings(objects), strings(problems)), "of\n{manifest}");
}

fn strings(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

const WEB: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: web, image: web}\n";

#[test]
fn a_pod_in_yaml_and_in_json() {
    check(WEB, &["Pod default/web"], &[]);
    check(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},
            "spec":{"containers":[{"name":"web","image":"web"}]}}"#,
        &["Pod shop/web"],
        &[],
    );
}

#[test]
fn a_stream_holds_several_objects() {
    let stream = format!(
        "# shop\n---\n{WEB}---\n---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: b}}\n...\n---\n\
         {{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{{\"name\":\"s\"}},\"stringData\":{{\"k\":\"v\"}}}}\n"
    );
    check(&stream, &["Pod default/web", "ConfigMap default/c", "Secret default/s"], &[]);
    let objects = decode(stream.as_bytes()).objects;
    assert!(matches!(&objects[2], Object::Secret(secret)
        if secret.data.as_ref().is_some_and(|data| data["k"].0 == b"v") && secret.string_data.is_none()));
}

#[test]
fn a_broken_document_leaves_its_neighbours_alone() {
    let stream = format!("{WEB}---\nkind: [Pod\n---\n{}", WEB.replace("web", "two"));
    let decoded = decode(stream.as_bytes());
    assert_eq!(decoded.objects.len(), 2);
    assert_eq!(decoded.problems.len(), 1);
    assert_eq!(decoded.problems[0].line, 8, "{}", decoded.problems[0]);
}

#[test]
fn nothing_is_a_problem() {
    for empty in ["", "\n\n", "# only a comment\n", "---\n---\n", "\u{feff}"] {
        check(
            empty,
            &[],
            &["1:1: the manifest is empty; write a Pod, a ConfigMap or a Secret, or remove the file"],
        );
    }
}

#[test]
fn octal_modes_mean_what_they_say() {
    let manifest = format!(
        "{WEB}  volumes:\n  - name: v\n    configMap: {{name: c, defaultMode: 0644}}\n  - name: w\n    secret: {{secretName: s, defaultMode: 0o600}}\n"
    );
    let decoded = decode(manifest.as_bytes());
    let Some(Object::Pod(pod)) = decoded.objects.first() else { return assert_eq!(decoded.problems, []) };
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).collect::<Vec<_>>();
    assert_eq!(volumes[0].config_map.as_ref().and_then(|v| v.default_mode), Some(0o644));
    assert_eq!(volumes[1].secret.as_ref().and_then(|v| v.default_mode), Some(0o600));
}
