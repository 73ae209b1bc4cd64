//! Tests of bodies as Go writes them, and of invalid bodies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::decoder::{MAX_DEPTH, MAX_VALUES};
use super::{Error, decode};

/// A field with its number and value.
fn field(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(number << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn number(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value.cast_unsigned())].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn message(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    body_of_type(api_version, kind, raw, "", "")
}

fn body_of_type(api_version: &str, kind: &str, raw: &[u8], encoding: &str, content_type: &str) -> Vec<u8> {
    let type_meta = message(&[field(1, api_version), field(2, kind)]);
    let fields = [field(1, type_meta), field(2, raw), field(3, encoding), field(4, content_type)];
    [b"k8s\0".to_vec(), message(&fields)].concat()
}

/// Decodes an object and compares its fields, without `apiVersion` and `kind`.
fn check(api_version: &str, kind: &str, raw: &[Vec<u8>], expected: Value) {
    let mut decoded = decode(&body(api_version, kind, &message(raw))).unwrap();
    let fields = decoded.as_object_mut().unwrap();
    assert_eq!(fields.shift_remove("apiVersion"), Some(api_version.into()));
    assert_eq!(fields.shift_remove("kind"), Some(kind.into()));
    assert_eq!(decoded, expected);
}

fn check_pod_spec(spec: &[Vec<u8>], expected: Value) {
    check("v1", "Pod", &[field(2, message(spec))], json!({"spec": expected}));
}

fn check_error(body: &[u8], expected: &str) {
    assert_eq!(decode(body).unwrap_err().to_string(), expected);
}

#[test]
fn pod_encoded_by_go_is_decoded() {
    let metadata = [field(1, "web"), field(2, ""), field(3, ""), number(7, 0), field(8, "")];
    let port = [field(1, ""), number(2, 0), number(3, 80), field(4, "TCP"), field(5, "")];
    let security = [number(2, 0), number(4, 0), number(6, 0)];
    let container = [
        field(1, "web"),
        field(2, "nginx"),
        field(5, ""),
        field(6, message(&port)),
        field(7, message(&[field(1, "EMPTY"), field(2, "")])),
        field(8, ""),
        field(13, ""),
        field(15, message(&security)),
        number(16, 0),
        number(18, 1),
    ];
    let volume = [field(1, "scratch"), field(2, field(2, message(&[field(1, "")])))];
    let spec = [
        field(1, message(&volume)),
        field(2, message(&container)),
        field(3, ""),
        number(4, 0),
        field(7, message(&[field(1, "disk"), field(2, "ssd")])),
        number(11, 0),
        number(21, 0),
        field(32, message(&[field(1, "cpu"), field(2, field(1, "100m"))])),
    ];
    let raw = [field(1, message(&metadata)), field(2, message(&spec)), field(3, field(1, ""))];
    let decoded = decode(&body("v1", "Pod", &message(&raw))).unwrap();
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [{
                "name": "web",
                "image": "nginx",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [{"name": "EMPTY"}],
                "resources": {},
                "securityContext": {"privileged": false, "runAsUser": 0, "readOnlyRootFilesystem": false},
                "tty": true,
            }],
            // These fields are pointers in Go, so zero values are kept.
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "nodeSelector": {"disk": "ssd"},
            "overhead": {"cpu": "100m"},
        },
        "status": {},
    });
    assert_eq!(decoded, expected);
    let first: Vec<&String> = decoded.as_object().unwrap().keys().take(2).collect();
    assert_eq!(first, ["apiVersion", "kind"], "what people read first comes first");
}

#[test]
fn protobuf_values_are_converted_to_their_json_form() {
    let times = |seconds, nanos| message(&[number(1, seconds), number(2, nanos)]);
    check(
        "v1",
        "Secret",
        &[
            field(1, field(8, times(1_767_225_600, 5))),
            field(2, message(&[field(1, "a"), field(2, [0, 255])])),
            field(2, field(1, "nothing")),
            field(3, "Opaque"),
        ],
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "data": {"a": "AP8=", "nothing": ""},
            "type": "Opaque",
        }),
    );
    let lease = message(&[number(2, 40), field(4, times(-1, 999_999_999)), field(3, "")]);
    check(
        "coordination.k8s.io/v1",
        "Lease",
        &[field(2, lease)],
        json!({"spec": {"leaseDurationSeconds": 40, "renewTime": "1969-12-31T23:59:59.999999Z"}}),
    );
    let target =
        |is_text, whole, text: &str| message(&[number(1, is_text), number(2, whole), field(3, text)]);
    let port = |target_port| field(1, message(&[number(3, 80), field(4, target_port), number(5, 0)]));
    check(
        "v1",
        "Service",
        &[field(
            2,
            message(&[port(target(0, 8080, "")), port(target(1, 0, "http")), port(target(0, 0, ""))]),
        )],
        json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 80, "targetPort": "http"}, {"port": 80}]}}),
    );
    let extra = message(&[field(1, "team"), field(2, message(&[field(1, "a"), field(1, "b")]))]);
    let user = message(&[field(1, "eve"), field(4, extra)]);
    check(
        "authentication.k8s.io/v1",
        "TokenReview",
        &[field(3, message(&[number(1, 1), field(2, user)]))],
        json!({"status": {"authenticated": true, "user": {"username": "eve", "extra": {"team": ["a", "b"]}}}}),
    );
    check(
        "apps/v1",
        "ControllerRevision",
        &[field(2, field(1, r#"{"spec":{"n":[1]}}"#)), number(3, 4)],
        json!({"data": {"spec": {"n": [1]}}, "revision": 4}),
    );
}

#[test]
fn the_schema_of_a_custom_resource() {
    let double = |number: u64, value: f64| [varint(number << 3 | 1), value.to_le_bytes().to_vec()].concat();
    let or_array = field(24, field(1, field(5, "string")));
    let or_bool = field(30, message(&[number(1, 0), field(2, field(5, "object"))]));
    let no_items = field(33, number(1, 0));
    let depends = field(32, message(&[field(1, "a"), field(2, field(2, "b"))]));
    let schema = [
        field(5, "object"),
        field(8, field(1, "false")),
        double(9, 10.0),
        double(11, -0.5),
        field(20, field(1, "\"x\"")),
        field(20, field(1, "null")),
        or_array,
        or_bool,
        no_items,
        depends,
        number(18, 0),
        number(21, 0),
    ];
    let version = [
        field(1, "v1"),
        number(2, 1),
        number(3, 0),
        field(4, field(1, message(&schema))),
        field(5, field(1, "")),
    ];
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[field(2, field(7, message(&version)))],
        json!({"spec": {"versions": [{
            "name": "v1",
            "served": true,
            "storage": false,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "default": false,
                "maximum": 10,
                "minimum": -0.5,
                "enum": ["x", null],
                "items": {"type": "string"},
                "additionalProperties": {"type": "object"},
                "additionalItems": false,
                "dependencies": {"a": ["b"]},
                "maxProperties": 0,
            }},
            "subresources": {"status": {}},
        }]}}),
    );
}

#[test]
fn the_rules_of_protobuf() {
    // Packed and unpacked lists, negative numbers, unknown fields, and groups.
    let group =
        [varint(99 << 3 | 3), number(1, 7), varint(98 << 3 | 3), varint(98 << 3 | 4), varint(99 << 3 | 4)]
            .concat();
    let context = [
        field(4, [varint(1), varint(300)].concat()),
        number(4, -1),
        number(1000, 5),
        field(1001, "x"),
        [varint(1002 << 3 | 5), vec![1, 2, 3, 4]].concat(),
        [varint(1003 << 3 | 1), vec![0; 8]].concat(),
        group,
    ];
    check_pod_spec(
        &[field(14, message(&context))],
        json!({"securityContext": {"supplementalGroups": [1, 300, -1]}}),
    );
    // A repeated message is merged, a repeated scalar replaces the first one.
    check_pod_spec(
        &[
            field(14, number(2, 3)),
            field(16, "a"),
            field(14, number(3, 1)),
            field(14, number(2, 4)),
            field(16, "b"),
        ],
        json!({"securityContext": {"runAsUser": 4, "runAsNonRoot": true}, "hostname": "b"}),
    );
    check_pod_spec(&[field(17, "c"), field(17, "")], json!({}));
}

#[test]
fn lists_options_and_embedded_json_are_decoded() {
    check(
        "v1",
        "ConfigMapList",
        &[field(1, field(2, "7")), field(2, field(1, field(1, "a"))), field(2, "")],
        json!({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}, {}]}),
    );
    let options = [number(1, 0), number(3, 0), field(4, "Background"), field(5, "All")];
    check(
        "apps/v1",
        "DeleteOptions",
        &options,
        json!({"gracePeriodSeconds": 0, "orphanDependents": false, "propagationPolicy": "Background", "dryRun": ["All"]}),
    );
    let object = json!({"apiVersion": "example.com/v1", "kind": "Any", "spec": {"a": [1, null]}});
    let text = object.to_string();
    let in_json = body_of_type("example.com/v1", "Any", text.as_bytes(), "", "application/json");
    assert_eq!(decode(&in_json).unwrap(), object);
    // A nested object has its own envelope.
    let inner = body("v1", "ConfigMap", &field(1, field(1, "a")));
    check(
        "apps/v1",
        "ControllerRevision",
        &[field(2, field(1, inner))],
        json!({"data": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}),
    );
}

#[test]
fn errors_have_path_and_remedy() {
    let pod = |spec: &[Vec<u8>]| body("v1", "Pod", &field(2, message(spec)));
    check_error(
        b"{}",
        "the body is not Kubernetes protobuf, which begins with `k8s` and a zero byte; send JSON, or set the right content type",
    );
    check_error(
        b"",
        "the body is not Kubernetes protobuf, which begins with `k8s` and a zero byte; send JSON, or set the right content type",
    );
    check_error(b"k8s\0", "`` has no kind `` that can be sent as protobuf; send it as application/json");
    check_error(
        &body("example.com/v1", "Thing", b""),
        "`example.com/v1` has no kind `Thing` that can be sent as protobuf; send it as application/json",
    );
    check_error(
        &body_of_type("v1", "Pod", b"", "gzip", ""),
        "the object in the body has the contentEncoding `gzip`; send it without a contentEncoding",
    );
    check_error(
        &body_of_type("v1", "Pod", b"", "", "text/plain"),
        "the object in the body is `text/plain`; send application/vnd.kubernetes.protobuf or application/json",
    );
    let container = |fields: &[Vec<u8>]| pod(&[field(2, ""), field(2, message(fields))]);
    check_error(
        &container(&[number(2, 1)]),
        "spec.containers[1].image: expected text, bytes or a message, found a whole number or a bool; use the types of Kubernetes' own .proto files",
    );
    check_error(
        &container(&[field(16, "yes")]),
        "spec.containers[1].stdin: expected a whole number or a bool, found text, bytes or a message; use the types of Kubernetes' own .proto files",
    );
    check_error(
        &container(&[field(2, [0xff])]),
        "spec.containers[1].image: the string is not UTF-8; encode it, or use a field of type bytes",
    );
    // A length beyond the end of the bytes allocates nothing.
    check_error(
        &container(&[[varint(2 << 3 | 2), varint(u64::MAX >> 1)].concat()]),
        "spec.containers[1]: the message ends too early; send all of it",
    );
    check_error(
        &container(&[vec![0]]),
        "spec.containers[1]: the bytes are not valid protobuf; encode the object again",
    );
    check_error(
        &container(&[vec![0xff; 11]]),
        "spec.containers[1]: the bytes are not valid protobuf; encode the object again",
    );
    let created = |time: Vec<u8>| body("v1", "Pod", &field(1, field(8, time)));
    check_error(
        &created(number(1, i64::MAX)),
        "metadata.creationTimestamp: the time is out of range; give one of the years 0 to 9999",
    );
    check_error(
        &body("apps/v1", "ControllerRevision", &field(2, field(1, "{"))),
        "data: the value is not valid JSON (EOF while parsing an object at line 1 column 1); correct it",
    );
    let selector = field(7, message(&[field(1, "key"), number(2, 1)]));
    check_error(
        &pod(&[selector]),
        "spec.nodeSelector[key]: expected text, bytes or a message, found a whole number or a bool; use the types of Kubernetes' own .proto files",
    );
}

#[test]
fn depth_and_size_are_bounded() {
    let schema = |levels: usize| {
        let mut schema = field(5, "string");
        for _ in 0..levels {
            schema = field(28, schema);
        }
        body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &field(2, field(7, field(4, field(1, schema)))),
        )
    };
    decode(&schema(MAX_DEPTH - 6)).unwrap();
    assert!(matches!(decode(&schema(MAX_DEPTH)), Err(Error::TooDeep { .. })));
    assert!(matches!(decode(&schema(20_000)), Err(Error::TooDeep { .. })));
    let mut inner = Vec::new();
    for _ in 0..200 {
        inner = body("apps/v1", "ControllerRevision", &field(2, field(1, inner)));
    }
    assert!(matches!(decode(&inner), Err(Error::TooDeep { .. })));
    let many = |count: usize| body("v1", "PodList", &field(2, "").repeat(count));
    decode(&many(1000)).unwrap();
    assert!(matches!(decode(&many(MAX_VALUES + 1)), Err(Error::TooMany { .. })));
    let numbers = field(2, field(14, field(4, vec![1; MAX_VALUES + 1])));
    assert!(matches!(decode(&body("v1", "Pod", &numbers)), Err(Error::TooMany { .. })));
}

proptest! {
    #[test]
    fn decoder_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bodies = [
            bytes.clone(),
            [b"k8s\0".to_vec(), bytes.clone()].concat(),
            body("v1", "Pod", &bytes),
            body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, field(7, &bytes))),
        ];
        for body in bodies {
            if let Err(error) = decode(&body) {
                let mut messages = String::new();
                write!(messages, "{error}").unwrap();
                prop_assert!(messages.contains(';'), "contains a remedy: {}", messages);
            }
        }
    }

    #[test]
    fn numbers_and_text_round_trip(text in "\\PC{0,20}", n in any::<i64>(), key in "[a-z.]{0,9}") {
        let secret = [field(4, message(&[field(1, &key), field(2, &text)])), number(5, n)];
        let expected = json!({"stringData": {key: text}, "immutable": n != 0});
        check("v1", "Secret", &secret, expected);
        let tolerations = field(22, message(&[field(1, "a"), number(5, n)]));
        check_pod_spec(&[tolerations], json!({"tolerations": [{"key": "a", "tolerationSeconds": n}]}));
    }
}
