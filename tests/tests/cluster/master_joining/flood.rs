//! An anonymous client floods the master with large certificate requests: it stores none of them, and nodes join and renew.

use std::fs;

use serde_json::{Value, json};
use tests::{Master, trusting};

use crate::master_joining::machine::{CLIENT, Machine, REQUESTS, Shows, admin};

/// The number of requests in one flood.
const REQUESTS_SENT: usize = 200;
/// Bytes of the field that makes a request large: just under the body size limit.
const LARGE: usize = 2_800_000;
/// Maximum memory growth of the master in KiB: the bodies of 8 concurrent requests, and memory that the allocator
/// keeps.
const GROWTH_KIB: u64 = 96 * 1024;

fn resident_kib(master: &Master) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", master.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Total bytes of the files below a directory.
fn bytes_below(directory: &std::path::Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        // The master has removed or renamed a temporary file.
        Err(_) => 0,
    });
    bytes.sum()
}

/// The requests of the attack: valid except for one large field.
fn attacks(request: &str) -> Vec<Value> {
    let large = "x".repeat(LARGE);
    let object = |metadata: Value, request: &str| {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": metadata,
            "spec": {"request": request, "signerName": CLIENT, "usages": ["digital signature", "client auth"]},
        })
    };
    let finalizers: Vec<String> =
        (0..LARGE / 200).map(|index| format!("example.com/{index:0>180}")).collect();
    let managed = json!([{
        "manager": "x", "operation": "Update", "apiVersion": "certificates.k8s.io/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {format!("f:{large}"): {}}},
    }]);
    vec![
        object(json!({"annotations": {"a": &large[..200_000]}}), request),
        object(json!({"annotations": {"a": large}}), request),
        object(json!({"finalizers": finalizers}), request),
        object(json!({"managedFields": managed}), request),
        object(json!({}), &large),
        // Small requests with a finalizer and an owner reference.
        object(json!({"finalizers": ["example.com/stays"]}), request),
        object(json!({"labels": {"a": "b"}}), request),
        object(
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b"}]}),
            request,
        ),
    ]
}

#[tokio::test]
async fn large_anonymous_requests_are_refused_and_nodes_still_join_and_renew() {
    let mut master = Master::running().await;
    let node = Machine::new();
    let request = node.request("kubelet:n1", "");
    assert_eq!(node.request_certificate(&master, &Shows::Nothing, ("n1", CLIENT), &request).await.0, 201);
    admin(&master, "certificate approve n1").await;
    let certificate = node.is_signed(&master, &Shows::Nothing, "n1").await;
    let (memory, disk) = (resident_kib(&master), bytes_below(&master.data_dir()));

    let attacks = attacks(&request);
    let anonymous = trusting(&master.admin().unwrap().authority, None).unwrap();
    let mut codes = Vec::new();
    let numbers: Vec<usize> = (0..REQUESTS_SENT).collect();
    for batch in numbers.chunks(8) {
        let sent = batch.iter().map(|number| {
            let mut object = attacks[number % attacks.len()].clone();
            object["metadata"]["name"] = format!("flood-{number}").into();
            let request = anonymous.post(format!("https://127.0.0.1:{}{REQUESTS}", master.port));
            async move { request.json(&object).send().await.unwrap().status().as_u16() }
        });
        codes.extend(futures_util::future::join_all(sent).await);
    }
    assert!(codes.iter().all(|code| [403, 413].contains(code)), "{codes:?}");
    let grown = resident_kib(&master).saturating_sub(memory);
    let written = bytes_below(&master.data_dir()).saturating_sub(disk);
    println!("the master grew by {grown} KiB and its directory by {written} bytes");
    assert!(grown < GROWTH_KIB, "{grown} KiB");
    assert!(written < 8 << 20, "{written} bytes");

    // The node renews its certificate, and after a restart another node joins.
    let request = node.request("system:node:n1", "");
    let (code, made) = node
        .request_certificate(&master, &Shows::Certificate(&certificate), ("renewed", CLIENT), &request)
        .await;
    assert_eq!(code, 201, "{made}");
    node.is_signed(&master, &Shows::Certificate(&certificate), "renewed").await;
    master.kill();
    master.start().await;
    let other = Machine::new();
    let request = other.request("kubelet:n2", "");
    assert_eq!(other.request_certificate(&master, &Shows::Nothing, ("n2", CLIENT), &request).await.0, 201);
    admin(&master, "certificate approve n2").await;
    other.is_signed(&master, &Shows::Nothing, "n2").await;
}
