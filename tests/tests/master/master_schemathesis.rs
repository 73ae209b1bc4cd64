//! Schemathesis tests of the master's OpenAPI documents. No response is late, a 5xx, or of an undocumented type, and
//! every error is a Status.
//!
//! `CORACLE_SCHEMATHESIS=600` tests all served paths for that many seconds, with other choices each time
//! (`CORACLE_SEED` repeats them). Use `cargo test` for it, because nextest kills tests after some minutes.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Chance, DEADLINE, Master, Python};

/// The documents that a short run tests.
const SOME: &[&str] = &["api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1"];
/// The resources that a short run tests: plain ones, one with subresources, and one with a pod template.
const RESOURCES: &[&str] = &["configmaps", "services", "deployments", "roles"];
/// Parts of objects that are connections or streams.
const STREAMS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
/// Timeout of a response in seconds.
const ANSWER_SECONDS: &str = "20";
/// A schema is less strict than validation, and unknown fields are dropped with a warning.
const NOT_CHECKED: &str = "positive_data_acceptance,negative_data_rejection";

/// The documents of the master as one: all, or some of some.
async fn described(master: &Master, whole_of_it: bool) -> Value {
    let (_, index) = master.get_as_admin("/openapi/v3").await;
    let index: Value = serde_json::from_str(&index).unwrap();
    let mut whole = json!({"openapi": "3.0.0", "info": {"title": "all", "version": "1"}, "paths": {}, "components": {"schemas": {}}});
    for (group, place) in index["paths"].as_object().unwrap() {
        if !whole_of_it && !SOME.contains(&group.as_str()) {
            continue;
        }
        let (code, document) = master.get_as_admin(place["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!(code, 200, "{document}");
        let document: Value = serde_json::from_str(&document).unwrap();
        for part in ["/paths", "/components/schemas"] {
            let more = document.pointer(part).unwrap().as_object().unwrap().clone();
            whole.pointer_mut(part).unwrap().as_object_mut().unwrap().extend(more);
        }
    }
    // Connections and logs use protocols and formats that the documents do not describe.
    let is_stream = |path: &str| path.split('/').any(|part| STREAMS.contains(&part));
    whole["paths"].as_object_mut().unwrap().retain(|path, _| !is_stream(path));
    if !whole_of_it {
        let is_wanted = |path: &str| path.split('/').any(|part| RESOURCES.contains(&part));
        whole["paths"].as_object_mut().unwrap().retain(|path, _| is_wanted(path));
    }
    whole
}

#[tokio::test]
async fn every_response_matches_the_openapi_document() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/master");
    let long: Option<u64> = env::var("CORACLE_SCHEMATHESIS").ok().map(|text| text.parse().unwrap());
    let master = Master::running().await;
    let admin = master.admin().unwrap();
    let objects = beside.join("master_tables/objects.yaml").display().to_string();
    let created = master
        .kubectl(&master.data_dir().join("admin.kubeconfig"), &["create", "--validate=false", "-f", &objects])
        .await;
    assert!(created.stdout.contains("configmap/a created"), "{created:?}");

    let python = Python::new();
    let write = |name: &str, text: &str| fs::write(python.home().join(name), text).unwrap();
    write("whole.json", &described(&master, long.is_some()).await.to_string());
    write("authority.pem", &admin.authority);
    write("certificate.pem", &admin.credentials.certificates);
    write("key.pem", &admin.credentials.key);
    let mut command = python.command("st");
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", beside.join("master_schemathesis"));
    command.args(["run", "whole.json", "--no-color", "--warnings", "off", "--suppress-health-check", "all"]);
    command.args(["--url", &format!("https://127.0.0.1:{}", master.port), "--tls-verify", "authority.pem"]);
    command.args(["--request-cert", "certificate.pem", "--request-cert-key", "key.pem"]);
    command.args(["--request-timeout", ANSWER_SECONDS, "--exclude-checks", NOT_CHECKED]);
    command.args(["--continue-on-failure", "--no-shrink"]);
    let deadline = match long {
        None => {
            command.args(["--phases", "fuzzing", "--generation-deterministic", "--max-examples", "2"]);
            DEADLINE * 4
        }
        Some(seconds) => {
            let seed = Chance::seed().to_string();
            command.args(["--phases", "coverage,fuzzing", "--max-examples", "1000"]);
            command.args(["--seed", &seed, "--max-time", &seconds.to_string()]);
            // After the time is up, Schemathesis finishes its current example.
            Duration::from_secs(seconds) + DEADLINE * 4
        }
    };
    let output = python.run(command, deadline).await;
    println!("{}", output.stdout);
    assert!(output.code == 0, "{}\n{}\n{}", output.stdout, output.stderr, master.log());
    assert_eq!(master.get_as_admin("/readyz").await.0, 200, "{}", master.log());
}
