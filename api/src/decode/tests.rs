//! Tests of manifests and the objects and problems in them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod hostile;
mod process_usage;

use super::{decode, decode_with, documents};
use crate::field_error::{ErrorType, FieldError, Target};
use crate::object::Object;

/// Decodes and compares: objects as `Kind namespace/name`, problems as printed.
fn check(manifest: &str, objects: &[&str], problems: &[&str]) {
    let decoded = decode(manifest.as_bytes());
    let names: Vec<String> = decoded.objects.iter().map(|object| object.object_name().to_string()).collect();
    let messages: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
    assert_eq!((names, messages), (strings(objects), strings(problems)), "of\n{manifest}");
}

fn strings(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

const WEB: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: web, image: web}\n";

#[test]
fn pod_is_decoded_from_yaml_and_json() {
    check(WEB, &["Pod default/web"], &[]);
    check(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},
            "spec":{"containers":[{"name":"web","image":"web"}]}}"#,
        &["Pod shop/web"],
        &[],
    );
}

#[test]
fn yaml_stream_contains_several_objects() {
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
fn invalid_document_does_not_affect_other_documents() {
    let stream = format!("{WEB}---\nkind: [Pod\n---\n{}", WEB.replace("web", "two"));
    let decoded = decode(stream.as_bytes());
    assert_eq!(decoded.objects.len(), 2);
    assert_eq!(decoded.problems.len(), 1);
    assert_eq!(decoded.problems[0].line, 8, "{}", decoded.problems[0]);
}

#[test]
fn an_empty_manifest_is_a_problem() {
    for empty in ["", "\n\n", "# only a comment\n", "---\n---\n", "\u{feff}"] {
        check(
            empty,
            &[],
            &[
                "1:1: the manifest is empty; write a Pod, a ConfigMap, a Secret or a Service, or remove the file",
            ],
        );
    }
}

#[test]
fn octal_file_modes_are_decoded() {
    let manifest = format!(
        "{WEB}  volumes:\n  - name: v\n    configMap: {{name: c, defaultMode: 0644}}\n  - name: w\n    secret: {{secretName: s, defaultMode: 0o600}}\n"
    );
    let decoded = decode(manifest.as_bytes());
    let Some(Object::Pod(pod)) = decoded.objects.first() else { return assert_eq!(decoded.problems, []) };
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).collect::<Vec<_>>();
    assert_eq!(volumes[0].config_map.as_ref().and_then(|v| v.default_mode), Some(0o644));
    assert_eq!(volumes[1].secret.as_ref().and_then(|v| v.default_mode), Some(0o600));
}

#[test]
fn list_objects_are_split_into_items() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: PodList\n  items:\n  - metadata: {name: a}\n    spec: {containers: [{name: c, image: i}]}\n  - metadata: {name: b}\n    spec: {containers: [{name: c, imag: i}]}\n- kind: Secret\n  apiVersion: v1\n  metadata: {name: s, namespace: shop}\n- {kind: Endpoints, apiVersion: v1}\n";
    check(
        list,
        &["Pod default/a", "Secret shop/s"],
        &[
            "10:35: items[0].items[1].spec.containers[0].imag: unknown field `imag`; did you mean `image`?",
            "14:10: items[2].kind: a node reads Pods, ConfigMaps, Secrets and Services, not Endpoints; remove this document, or send it to a master",
        ],
    );
    check("apiVersion: v1\nkind: List\nitems: []\n", &[], &[]);
    check(
        "apiVersion: v1\nkind: ConfigMapList\nitem: []\nitems: {}\n",
        &[],
        &[
            "3:1: item: unknown field `item`; did you mean `items`?",
            "4:8: items: expected a list of objects; start each object with `- `",
        ],
    );
}

#[test]
fn documents_require_kind_and_api_version() {
    for (manifest, problem) in [
        (
            "just text",
            "1:1: expected an object, found a single value; begin with `apiVersion: v1` and `kind: Pod`",
        ),
        ("- a\n- b", "1:1: expected an object, found a list; begin with `apiVersion: v1` and `kind: Pod`"),
        ("[1, 2]", "1:1: expected an object, found a list; begin with `apiVersion: v1` and `kind: Pod`"),
        ("a: b", "1:1: `kind` is missing; add `kind: Pod`, `kind: ConfigMap` or `kind: Secret`"),
        ("apiVersion: v1\nspec: {containers: []}", "1:1: `kind` is missing; add `kind: Pod`"),
        ("kind: Pod", "1:1: `apiVersion` is missing; add `apiVersion: v1`"),
        ("apiVersion: v1\nkind: pod", "2:7: kind: unknown kind `pod`; did you mean `Pod`?"),
        ("apiVersion: v1\nkind: Configmap", "2:7: kind: unknown kind `Configmap`; did you mean `ConfigMap`?"),
        (
            "apiVersion: v2\nkind: Pod",
            "1:13: apiVersion: a node does not support Pod of `v2`; write `apiVersion: v1` or `v1beta3`",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment",
            "2:7: kind: a node runs Pods, not a Deployment; write a Pod from its template here, or send it to a master",
        ),
        (
            "apiVersion: v1\nkind: Endpoints",
            "2:7: kind: a node reads Pods, ConfigMaps, Secrets and Services, not Endpoints; remove this document, or send it to a master",
        ),
        (
            "apiVersion: v1\nkind: [Pod]",
            "2:7: kind: expected a string; write a name, such as `kind: Pod` and `apiVersion: v1`",
        ),
        (
            "version: v1beta9\nid: x",
            "1:10: version: unknown version of ContainerManifest; write `version: v1beta2`; or, for a Pod, `apiVersion: v1` and `kind: Pod`",
        ),
    ] {
        check(manifest, &[], &[problem]);
    }
}

#[test]
fn problems_have_positions_and_objects() {
    let manifest = "# a comment\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: &l\n    tier: 1.10\nspec:\n  containers:\n  - name: web\n    image: web\n    env:\n    - name: A\n      value: yes\n    command: run # it\n";
    check(
        manifest,
        &[],
        &[
            "8:11: metadata.labels[tier]: expected a string, found a number; quote it: \"1.10\"",
            "15:14: spec.containers[0].env[0].value: expected a string, found true; quote it: \"yes\"",
            "16:14: spec.containers[0].command: expected a list of strings, found the string \"run\"; write a list, even of one: `[...]`, or a line that starts with `- `",
        ],
    );
    let problems = decode(manifest.as_bytes()).problems;
    assert_eq!(problems[0].object.as_ref().unwrap().to_string(), "Pod default/web");
    let json = "\n{\"apiVersion\": \"v1\",\n \"kind\": \"ConfigMap\",\n \"metadata\": {\"name\": \"c\"},\n \"data\": {\"a\": \"é\", \"n\":   5}}\n{\"kind\":\"Pod\"}";
    check(
        json,
        &[],
        &[
            "5:28: data[n]: expected a string, found a number; quote it: \"5\"",
            "6:1: `apiVersion` is missing; add `apiVersion: v1`",
        ],
    );
}

#[test]
fn errors_in_merged_and_aliased_yaml_have_positions() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: &x 5\n  b: *x\n";
    check(
        manifest,
        &[],
        &[
            "5:9: data[a]: expected a string, found a number; quote it: \"5\"",
            "6:6: data[b]: expected a string, found a number; put it in quotes",
        ],
    );
    let merged = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nimmutable: true\ndata:\n  <<: {a: x, b: x}\n  b: z\n";
    let decoded = decode(merged.as_bytes());
    let Object::ConfigMap(config_map) = &decoded.objects[0] else { return assert_eq!(decoded.problems, []) };
    let data: Vec<_> = config_map.data.iter().flatten().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(data, ["a=x", "b=z"]);
}

#[test]
fn errors_never_contain_secret_values() {
    check(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  pin: 123456\ndata:\n  key: swordfish!\n",
        &[],
        &[
            "5:8: stringData[pin]: expected a string, found a number; put it in quotes",
            "7:8: data[key]: the value is not base64; encode it (`base64 -w0`), or write it as it is under `stringData` of a Secret or `data` of a ConfigMap",
        ],
    );
}

#[test]
fn duplicate_names_are_rejected() {
    check(
        &format!("{WEB}---\n{WEB}---\n{}", WEB.replace("{name: web}", "{name: web, namespace: other}")),
        &["Pod default/web", "Pod other/web"],
        &[
            "10:18: metadata.name: Pod default/web is defined twice in this manifest; rename or remove one of them; the first one is used",
        ],
    );
}

#[test]
fn validation_errors_have_positions() {
    let extra_check = |object: &Object| match object {
        Object::Pod(_) => vec![FieldError {
            path: "spec.containers[0].image".into(),
            target: Target::Name,
            error_type: ErrorType::Invalid,
            what: "is not supported on this node".to_owned(),
            remedy: "remove it".to_owned(),
        }],
        Object::ConfigMap(_) | Object::Secret(_) | Object::Service(_) => Vec::new(),
    };
    let messages = |manifest: &str| -> Vec<String> {
        let decoded = decode_with(manifest.as_bytes(), &extra_check);
        assert_eq!(decoded.objects, []);
        decoded.problems.iter().map(ToString::to_string).collect()
    };
    assert_eq!(messages(WEB), ["6:17: spec.containers[0].image: is not supported on this node; remove it"]);
    assert_eq!(
        messages("version: v1beta1\nid: a\ncontainers:\n- name: c\n  image: i\n"),
        ["5:3: containers[0].image: is not supported on this node; remove it"]
    );
}

#[test]
fn static_pod_manifest_of_kubeadm_is_decoded() {
    let manifest = r#"apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/etcd.advertise-client-urls: https://10.0.0.1:2379
  creationTimestamp: null
  labels:
    component: etcd
    tier: control-plane
  name: etcd
  namespace: kube-system
spec:
  containers:
  - command:
    - etcd
    - --data-dir=/var/lib/etcd
    image: registry.k8s.io/etcd:3.5.15-0
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /livez
        port: 2381
        scheme: HTTP
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: etcd
    resources:
      requests:
        cpu: 100m
        memory: 100Mi
    volumeMounts:
    - mountPath: /var/lib/etcd
      name: etcd-data
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /var/lib/etcd
      type: DirectoryOrCreate
    name: etcd-data
status: {}
"#;
    check(manifest, &["Pod kube-system/etcd"], &[]);
}

#[test]
fn an_array_of_container_manifests_is_read() {
    let manifest = |id: &str| {
        format!(r#"{{"version": "v1beta1", "id": "{id}", "containers": [{{"name": "c", "image": "i"}}]}}"#)
    };
    let array = format!("[{}, {}]", manifest("a"), manifest("b"));
    check(&array, &["Pod default/a", "Pod default/b"], &[]);
    let one_wrong = format!(r#"[{}, {{"version": "v7", "id": "x"}}]"#, manifest("a"));
    let decoded = decode(one_wrong.as_bytes());
    assert_eq!((decoded.objects.len(), decoded.problems.len()), (1, 1), "{:?}", decoded.problems);
    check("[]", &[], &["1:1: expected an object, found a list; begin with `apiVersion: v1` and `kind: Pod`"]);
}

#[test]
fn pods_before_v1beta3_are_rejected() {
    let decoded = decode(b"apiVersion: v1beta1\nkind: Pod\nid: a\ndesiredState: {manifest: {}}\n");
    let remedy = "write `apiVersion: v1`, and under `spec` what is under `desiredState.manifest`";
    assert_eq!(decoded.problems[0].remedy, remedy);
}

#[test]
fn escaped_apostrophe_in_double_quotes_is_accepted() {
    let manifest = WEB.replace("image: web}", "image: web, command: [sh, -c, \"echo it\\'s\"]}");
    let decoded = decode(manifest.as_bytes());
    let Some(Object::Pod(pod)) = decoded.objects.first() else { return assert_eq!(decoded.problems, []) };
    let command = pod.spec.as_ref().unwrap().containers[0].command.as_ref().unwrap();
    assert_eq!(command[2], "echo it's");
}

#[test]
fn documents_of_any_kind_are_parsed_separately() {
    let text = "# none\n---\nkind: Any\n---\na: {\n---\n{\"a\": 1} {\"b\": 2}\n...\n{\"a\": 1} {\"b\": 2}\n---\n{a: 1}\n";
    let found = documents(text.as_bytes()).unwrap();
    let lines: Vec<u32> = found.iter().map(|document| document.line).collect();
    assert_eq!(lines, [1, 4, 6, 9, 10]);
    let values = |index: usize| found[index].values.as_ref().map(Vec::len);
    assert_eq!((values(0), values(3), values(4)), (Ok(1), Ok(2), Ok(1)));
    assert!(found[1].values.as_ref().unwrap_err().line >= 5);
    assert!(documents(b"# none").unwrap()[0].values.as_ref().unwrap().is_empty());
    assert!(documents(b"\xff").is_err());
    let many = documents("---\n".repeat(10_001).as_bytes()).unwrap_err();
    assert!(many.to_string().contains("more than 10000 documents"), "{many}");
}
