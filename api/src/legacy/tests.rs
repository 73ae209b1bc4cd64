//! Tests of manifests of 2014 and 2015 and the Pods that result.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use crate::decode::decode;
use crate::object::Object;

/// Checks the spec of the only Pod of a manifest; fields that are not in `expected` are ignored.
#[track_caller]
fn becomes(manifest: &str, name: &str, expected: Value) {
    let decoded = decode(manifest.as_bytes());
    let messages: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
    assert_eq!(messages, Vec::<String>::new());
    let [Object::Pod(pod)] = decoded.objects.as_slice() else { return assert_eq!(decoded.objects, []) };
    assert_eq!(decoded.objects[0].object_name().to_string(), name);
    let spec = serde_json::to_value(pod.spec.as_ref().unwrap()).unwrap();
    assert_eq!(part(&spec, &expected), expected);
}

/// The parts of `value` that `of` has.
fn part(value: &Value, of: &Value) -> Value {
    match (value, of) {
        (Value::Object(fields), Value::Object(of)) => of
            .iter()
            .map(|(name, of)| (name.clone(), part(fields.get(name).unwrap_or(&Value::Null), of)))
            .collect(),
        (Value::Array(values), Value::Array(of)) if values.len() == of.len() => {
            values.iter().zip(of).map(|(value, of)| part(value, of)).collect()
        }
        _ => value.clone(),
    }
}

#[track_caller]
fn refused(manifest: &str, problems: &[&str]) {
    let decoded = decode(manifest.as_bytes());
    let messages: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
    assert_eq!(messages, problems);
    assert_eq!(decoded.objects, []);
}

#[test]
fn a_container_manifest() {
    becomes(
        r#"
version: v1beta2
id: web
uuid: 6f0b
containers:
- name: nginx
  image: dockerfile/nginx
  entrypoint: [/bin/nginx]
  command: [-g, daemon off;]
  cpu: 500
  memory: 67108864
  privileged: true
  capabilities: {add: [NET_ADMIN]}
  imagePullPolicy: PullNever
  ports: [{name: http, hostPort: 8080, containerPort: 80, protocol: tcp}]
  env: [{key: MODE, value: fast}, {name: ID, valueFrom: {fieldRef: {apiVersion: v1beta1, fieldPath: name}}}]
  volumeMounts: [{name: data, path: /data, mountType: LOCAL}, {name: logs, mountPath: /logs, readOnly: true}]
  livenessProbe: {type: http, httpGet: {path: /ok, port: "8080x", host: 10.0.0.1}, initialDelaySeconds: 5}
restartPolicy: {onFailure: {}}
dnsPolicy: Default
volumes:
- name: data
  source: {hostDir: {path: /srv}}
- name: logs
- name: keys
  source: {secret: {target: {kind: Secret, name: k}}}
"#,
        "Pod default/web",
        json!({
            "restartPolicy": "OnFailure", "dnsPolicy": "Default",
            "volumes": [
                {"name": "data", "hostPath": {"path": "/srv"}},
                {"name": "logs", "emptyDir": {}},
                {"name": "keys", "secret": {"secretName": "k"}},
            ],
            "containers": [{
                "command": ["/bin/nginx"], "args": ["-g", "daemon off;"], "imagePullPolicy": "Never",
                "resources": {"limits": {"cpu": "500m", "memory": "67108864"}, "requests": {"cpu": "500m", "memory": "67108864"}},
                "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}},
                "ports": [{"name": "http", "hostPort": 8080, "containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "MODE", "value": "fast"},
                    {"name": "ID", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "logs", "mountPath": "/logs", "readOnly": true}],
                "livenessProbe": {"httpGet": {"path": "/ok", "port": "8080x"}, "initialDelaySeconds": 5, "periodSeconds": 10},
            }],
        }),
    );
    let decoded = decode(b"{\"version\":\"v1beta1\",\"id\":\"a\",\"uuid\":\"6f0b\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}");
    assert_eq!(decoded.objects[0].metadata().uid.as_deref(), Some("6f0b"));
    // The default restart policy is Always; a limit of 0 is no limit.
    becomes(
        "version: v1beta1\nid: a\ncontainers: [{name: c, image: i, cpu: 0, memory: 0}]\n",
        "Pod default/a",
        json!({"restartPolicy": "Always", "containers": [{"resources": null}]}),
    );
}

#[test]
fn lists_of_manifests_and_bound_pods() {
    let list = r#"{"kind": "ContainerManifestList", "apiVersion": "v1beta1", "items": [
        {"version": "v1beta1", "id": "a", "containers": [{"name": "c", "image": "i"}]},
        {"version": "v1beta1", "id": "b", "containers": [{"name": "c", "imag": "i"}]}]}"#;
    let decoded = decode(list.as_bytes());
    assert_eq!(decoded.objects.len(), 1);
    assert_eq!(
        decoded.problems[0].to_string(),
        "3:72: items[1].containers[0].imag: unknown field `imag`; did you mean `image`?"
    );
    assert_eq!(decoded.problems[0].object.as_ref().unwrap().to_string(), "Pod default/b");
    becomes(
        r#"{"kind": "BoundPods", "apiVersion": "v1beta2", "host": "n1", "items": [
            {"id": "a", "namespace": "shop", "uid": "u", "annotations": {"k": "v"}, "resourceVersion": 5,
             "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": {"never": {}}, "host": "n1"}}]}"#,
        "Pod shop/a",
        json!({"restartPolicy": "Never", "nodeName": "n1"}),
    );
}

#[test]
fn a_v1beta3_pod() {
    becomes(
        "apiVersion: v1beta3\nkind: Pod\nmetadata: {name: a}\nspec:\n  host: n1\n  containers: [{name: c, image: i, privileged: true, command: [x]}]\nstatus: {host: n1, Condition: []}\n",
        "Pod default/a",
        json!({"nodeName": "n1", "containers": [{"command": ["x"], "securityContext": {"privileged": true}}]}),
    );
    becomes(
        "apiVersion: v1beta3\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, image: i}]\nstatus: {host: n1}\n",
        "Pod default/a",
        json!({"nodeName": "n1"}),
    );
    refused(
        "apiVersion: v1beta3\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeName: n1\n  containers: [{name: c, image: i}]\nstatus:\n  host: n2\n",
        &[
            "8:9: status.host: `n2` differs from spec.nodeName, which is `n1`; they are the same field: write the same value, or remove one of them",
        ],
    );
    refused(
        "apiVersion: v1beta3\nkind: Pod\nmetadata: {name: a}\nspec:\n  host: N1\n  containers: [{name: c, image: i, imagePullPolicy: PullSometimes}]\n",
        &[
            "5:9: spec.host: `N1` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `n1`",
            "6:53: spec.containers[0].imagePullPolicy: `Sometimes` is not one of Always, IfNotPresent, Never; write one of these",
        ],
    );
}

#[test]
fn errors_use_manifest_field_names() {
    refused(
        r#"version: v1beta1
id: My Pod
containers:
- name: c
  image: i
  cpu: -5
  env:
  - key: A=B
  volumeMounts:
  - name: data
    path: ""
  - name: nowhere
    mountPath: /x
restartPolicy: {always: {}, never: {}}
volumes:
- name: data
  source:
    hostDir: {path: ../up}
"#,
        &[
            "2:5: id: `My Pod` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `my-pod`",
            "6:8: containers[0].cpu: -5m is negative; write 0 or more",
            "8:10: containers[0].env[0].key: `A=B` is not a valid variable name: printable ASCII without `=`; use capital letters, digits and `_`",
            "11:11: containers[0].volumeMounts[0].path: is required; add where the volume appears in the container",
            "12:11: containers[0].volumeMounts[1].name: there is no volume `nowhere`; add it under `spec.volumes`",
            "14:16: restartPolicy: there are several restart policies; keep one of always, onFailure, never",
            "18:21: volumes[0].source.hostDir.path: `../up` must not contain `..`; write the path out",
        ],
    );
    refused(
        "version: v1beta1\ncontainers: [{name: c, image: i}]\n",
        &["1:1: id: is required; give the object a name"],
    );
    refused(
        "version: v1beta1\nid: a\nvolume: []\ncontainers:\n- {name: c, image: i, entrypoint: sh, memory: 64MB, volumeMounts: [{name: v, mountpath: /x}]}\n",
        &[
            "3:1: volume: unknown field `volume`; did you mean `volumes`?",
            "5:35: containers[0].entrypoint: expected a list of strings, found the string \"sh\"; write a list, even of one: `[...]`, or a line that starts with `- `",
            "5:47: containers[0].memory: `64MB` is not a quantity: it has an unknown suffix; did you mean `64M`?",
            "5:75: containers[0].volumeMounts[0].name: there is no volume `v`; add it under `spec.volumes`",
            "5:78: containers[0].volumeMounts[0].mountpath: unknown field `mountpath`; did you mean `mountPath`?",
        ],
    );
}
