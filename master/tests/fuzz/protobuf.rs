//! Objects in protobuf, as typed clients send them.

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Pairs of a path and the body that is sent to it.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let entry = |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let metadata = field(1, &[field(2, b"made-"), field(11, &entry("app", "web"))].concat());
    let container = field(2, &[field(1, b"main"), field(2, b"nginx")].concat());
    let template = [field(1, &field(11, &entry("app", "web"))), field(2, &container)].concat();
    let selector = field(2, &field(1, &entry("app", "web")));
    // Field 1, a varint with the value 3.
    let spec = [vec![8, 3], selector, field(3, &template)].concat();
    vec![
        (
            "/api/v1/namespaces/default/configmaps",
            whole("v1", "ConfigMap", &[metadata.clone(), field(2, &entry("k", "v"))].concat()),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            whole("v1", "Secret", &[metadata.clone(), field(2, &entry("k", "\0v"))].concat()),
        ),
        (
            "/api/v1/namespaces/default/pods",
            whole("v1", "Pod", &[metadata.clone(), field(2, &container)].concat()),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            whole("apps/v1", "Deployment", &[metadata, field(2, &spec)].concat()),
        ),
    ]
}

/// The Kubernetes protobuf envelope (`runtime.Unknown`) of a message.
fn whole(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, message)].concat()
}

/// A length-delimited field of less than 16 KiB.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    let mut field = vec![number << 3 | 2];
    match u8::try_from(length) {
        Ok(short @ 0..128) => field.push(short),
        _ => field.extend([(length & 127) as u8 | 128, (length >> 7) as u8]),
    }
    field.extend_from_slice(bytes);
    field
}
