//! Output of `check` for valid and invalid manifests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::inspect::{Host, Input, inspect};
use super::{as_json, as_text};
use crate::desired::{Admission, Completeness, Merge, Node, Snapshot, SourceKind};
use crate::observed::Timestamp;
use crate::sources::manifest::{Known, Manifest, ManifestContext};

fn pod(name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: main\n    image: x\n{container}"
    )
}

fn checked(files: &[(&str, &str)]) -> String {
    let input = |(origin, text): &(&str, &str)| Input {
        origin: (*origin).to_owned(),
        read: Ok(text.as_bytes().to_vec()),
    };
    let inputs: Vec<Input> = files.iter().map(input).collect();
    as_text(&inspect(&inputs, &host(None), Timestamp::UNIX_EPOCH))
}

fn host(app_armor: Option<bool>) -> Host {
    Host { node: "n".to_owned(), app_armor }
}

#[test]
fn check_counts_valid_objects() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n";
    assert_eq!(checked(&[]), "0 objects fine\n");
    assert_eq!(checked(&[("a.yaml", &pod("a", ""))]), "1 object fine\n");
    assert_eq!(
        checked(&[("a.yaml", &format!("{}---\n{map}", pod("a", ""))), ("b.yaml", &pod("b", ""))]),
        "3 objects fine\n"
    );
}

#[test]
fn check_escapes_control_characters_of_a_manifest() {
    let text =
        checked(&[("a\x1b[2J.yaml", "apiVersion: v1\nkind: \"\\e]0;title\\a\"\nmetadata: {name: a}\n")]);
    assert!(text.contains("^[") && text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn every_problem_has_a_position() {
    let port = "    ports:\n    - {containerPort: 80, hostPort: 8080}\n";
    for (files, expected) in [
        (
            vec![("b.yaml", pod("b", "    imag: y\n")), ("a.yaml", pod("a", ""))],
            "b.yaml:9:5: spec.containers[0].imag: unknown field `imag`; did you mean `image`?\n1 object fine, 1 problem\n",
        ),
        (
            vec![("a.yaml", pod("web", "")), ("b.yaml", format!("# second\n{}", pod("web", "")))],
            "b.yaml:5:9: metadata.name: Pod default/web is already defined in a.yaml; rename or remove one of them; the one \
             in a.yaml is used\n1 object fine, 1 problem\n",
        ),
        (
            vec![("a.yaml", pod("a", port)), ("b.yaml", format!("{}---\n{}", pod("x", ""), pod("b", port)))],
            "b.yaml:19:37: spec.containers[0].ports[0].hostPort: Predicate NodePorts failed: node(s) didn't have free \
             ports for the requested pod ports: TCP 8080 is taken by the pod default/a-n; give one of the two another \
             hostPort\n2 objects fine, 1 problem\n",
        ),
        (
            vec![("a.yaml", pod(&"x".repeat(253), ""))],
            "a.yaml:4:9: metadata.name: the full name of the pod is",
        ),
        (vec![("a.yaml", String::new())], "a.yaml:1:1: the manifest is empty; "),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let report_lines = checked(&files);
        assert!(report_lines.starts_with(expected), "{report_lines}");
    }
}

#[test]
fn an_unsupported_field_is_reported_with_its_position() {
    let report_lines =
        checked(&[("a.yaml", &pod("a", "    volumeDevices:\n    - {name: disk, devicePath: /dev/x}\n"))]);
    assert!(report_lines.contains("spec.containers[0].volumeDevices"), "{report_lines}");
    assert!(report_lines.starts_with("a.yaml:"), "{report_lines}");
}

/// Adds fields to the spec of a valid pod, and returns the output.
fn refused_pod(spec: &serde_json::Value, container: &serde_json::Value) -> String {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "x"}]}});
    let merge = |into: &mut serde_json::Value, from: &serde_json::Value| {
        let fields = from.as_object().cloned().unwrap_or_default();
        into.as_object_mut().unwrap().extend(fields);
    };
    merge(&mut pod["spec"], spec);
    merge(&mut pod["spec"]["containers"][0], container);
    pod.to_string()
}

#[test]
fn check_and_run_reject_the_same_pods() {
    let none = json!({});
    let volume = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
    let rejected = [
        (json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}), none.clone(), "use `Merge`"),
        (json!({"hostUsers": false}), none.clone(), "leave it out"),
        (
            volume,
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Enabled"}]}),
            "use `IfPossible`",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}}]}),
            none.clone(),
            "use `Memory`",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}]}),
            none.clone(),
            "use `Memory`",
        ),
        (json!({"runtimeClassName": "gvisor"}), none.clone(), "default runtime"),
        (json!({"os": {"name": "windows"}}), none.clone(), "leave it out"),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
            none.clone(),
            "--allowed-unsafe-sysctls",
        ),
    ];
    for (spec, container, remedy) in &rejected {
        let text = refused_pod(spec, container);
        let report_lines = checked(&[("a.json", &text)]);
        assert!(
            report_lines.contains(remedy) && report_lines.ends_with("0 objects fine, 1 problem\n"),
            "{text}\n{report_lines}"
        );
        let place = ManifestContext { node: "n".to_owned(), source: SourceKind::File };
        let manifest =
            Manifest::default().read(text.as_bytes(), &place, &Known::new(), Timestamp::UNIX_EPOCH);
        let (mut objects, mut problems) = (Vec::new(), Vec::new());
        manifest.add_to(&Arc::from("a.json"), &mut objects, &mut problems);
        assert!(problems.is_empty(), "{text}");
        let (waiting, completeness) = (BTreeSet::new(), Completeness::Complete);
        let snapshot = Snapshot {
            source: SourceKind::File,
            objects,
            waiting,
            problems,
            skipped: Vec::new(),
            completeness,
        };
        let desired = Merge::new([SourceKind::File]).put(Arc::new(snapshot));
        let decision = Admission::default().decide(&desired, &Node::default());
        assert_eq!((decision.run.len(), decision.rejected.len()), (0, 1), "run admits {text}");
    }
}

#[test]
fn a_host_without_app_armor_is_a_warning_for_pods_that_request_a_profile() {
    let context = |kind: &str| json!({"securityContext": {"appArmorProfile": {"type": kind}}});
    let annotated = pod("a", "").replacen(
        "  name: a",
        "  name: a\n  annotations: {container.apparmor.security.beta.kubernetes.io/main: runtime/default}",
        1,
    );
    let requests = [
        (refused_pod(&context("RuntimeDefault"), &json!({})), "spec.securityContext.appArmorProfile"),
        (
            refused_pod(&json!({}), &context("RuntimeDefault")),
            "spec.containers[0].securityContext.appArmorProfile",
        ),
        (annotated, "metadata.annotations"),
    ];
    let report_lines = |text: &str, app_armor| {
        let inputs = [Input { origin: "a.yaml".to_owned(), read: Ok(text.as_bytes().to_vec()) }];
        as_text(&inspect(&inputs, &host(app_armor), Timestamp::UNIX_EPOCH))
    };
    for (text, path) in &requests {
        let without = report_lines(text, Some(false));
        assert!(
            without.starts_with("a.yaml:") && without.contains(&format!(" warning: {path}")),
            "{without}"
        );
        assert!(
            without.contains("Cannot enforce AppArmor: AppArmor is not enabled on the host; "),
            "{without}"
        );
        assert!(without.ends_with("1 object fine, 1 warning\n"), "{without}");
        assert_eq!(report_lines(text, Some(true)), "1 object fine\n");
    }
    let unconfined = refused_pod(&context("Unconfined"), &json!({}));
    assert_eq!(report_lines(&unconfined, Some(false)), "1 object fine\n");
}

#[test]
fn extended_resources_are_a_problem_for_check() {
    for resource in ["hugepages-2Mi", "example.com/gpu"] {
        let amounts = json!({resource: "4Mi", "cpu": "1"});
        let resources = json!({"resources": {"limits": amounts, "requests": amounts}});
        let report_lines = checked(&[("a.json", &refused_pod(&json!({}), &resources))]);
        assert!(
            report_lines.contains(resource) && report_lines.ends_with("0 objects fine, 1 problem\n"),
            "{report_lines}"
        );
    }
}

#[test]
fn check_reports_container_creation_errors() {
    let context = json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0}});
    let report_lines = checked(&[("a.json", &refused_pod(&json!({}), &context))]);
    assert!(
        report_lines
            .contains("spec.containers[0].securityContext: container's runAsUser breaks non-root policy"),
        "{report_lines}"
    );
    let long = json!({"hostname": "h".repeat(40), "subdomain": "s".repeat(30), "setHostnameAsFQDN": true});
    let report_lines = checked(&[("a.json", &refused_pod(&long, &json!({})))]);
    assert!(report_lines.contains("shorten hostname or subdomain"), "{report_lines}");
}

#[test]
fn check_warns_about_missing_references() {
    let map = |data: &str| {
        ("map.yaml", format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf}}\ndata: {data}\n"))
    };
    let env = |optional: &str| {
        let key = format!("{{name: conf, key: k{optional}}}");
        (
            "a.yaml",
            pod("a", &format!("    env:\n    - name: K\n      valueFrom:\n        configMapKeyRef: {key}\n")),
        )
    };
    let from = ("a.yaml", pod("a", "    envFrom:\n    - secretRef: {name: s}\n    - secretRef: {name: s}\n"));
    let place = "a.yaml:12:26: warning: spec.containers[0].env[0].valueFrom.configMapKeyRef: ";
    for (files, expected) in [
        (
            vec![env("")],
            format!(
                "{place}none of these manifests contains the ConfigMap default/conf; add it to the manifests"
            ),
        ),
        (vec![env(""), map("{j: v}")], format!("{place}the ConfigMap default/conf has no key k; ")),
        (vec![env(""), map("{k: v}")], "2 objects fine\n".to_owned()),
        (vec![env(", optional: true")], "1 object fine\n".to_owned()),
        (
            vec![from],
            "a.yaml:10:25: warning: spec.containers[0].envFrom[0].secretRef.name: none of these".to_owned(),
        ),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let report_lines = checked(&files);
        assert!(report_lines.starts_with(&expected), "{report_lines}");
        let warns = report_lines.lines().count() > 1;
        assert!(!warns || report_lines.ends_with("fine, 1 warning\n"), "each once: {report_lines}");
    }
}

#[test]
fn pod_waits_for_references_but_not_for_pull_secrets() {
    let secret = ("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n".to_owned());
    let pulls = "  imagePullSecrets: [{name: s}]\n";
    let uses = "    envFrom: [{secretRef: {name: s}}]\n";
    let waits = "the pod waits until it exists";
    let goes_on = "the pod does not wait for it: until the node has it, images are pulled without it";
    for (pod, path, remedy) in [
        (pod("a", pulls), "spec.imagePullSecrets[0].name", goes_on),
        (pod("a", uses), "spec.containers[0].envFrom[0].secretRef.name", waits),
        (pod("a", &format!("{uses}{pulls}")), "spec.containers[0].envFrom[0].secretRef.name", waits),
    ] {
        let report_lines = checked(&[("a.yaml", &pod)]);
        assert!(
            report_lines
                .contains(&format!("{path}: none of these manifests contains the Secret default/s; ")),
            "{report_lines}"
        );
        assert!(report_lines.lines().next().unwrap().ends_with(remedy), "{report_lines}");
        assert_eq!(checked(&[("a.yaml", &pod), (secret.0, &secret.1)]), "2 objects fine\n");
    }
}

#[test]
fn check_has_a_json_format() {
    let inputs = [Input { origin: "a.yaml".to_owned(), read: Ok(pod("a", "    imag: y\n").into_bytes()) }];
    let report = inspect(&inputs, &host(None), Timestamp::UNIX_EPOCH);
    let unreadable = [("b.yaml", "No such file".to_owned())];
    assert_eq!(
        as_json(&report, &unreadable),
        json!({
            "fine": 0,
            "problems": [{
                "file": "a.yaml", "line": 9, "column": 5, "path": "spec.containers[0].imag",
                "what": "unknown field `imag`", "remedy": "did you mean `image`?",
                "object": {"kind": "Pod", "namespace": "default", "name": "a"},
            }],
            "warnings": [],
            "unread": [],
            "unreadable": [{"file": "b.yaml", "what": "No such file"}],
        })
    );
}
