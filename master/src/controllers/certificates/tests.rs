//! CSRs that are approved, signed, failed and deleted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::*;
use crate::pki::{Pki, Signer};

const NODE: &str = "kubernetes.io/kube-apiserver-client-kubelet";

fn at_hour(hour: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + hour * 3600).unwrap()
}

fn request(common_name: &str) -> Json {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, common_name);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let request = json!({
        "metadata": {"name": "a", "creationTimestamp": at_hour(0).to_string()},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": NODE, "username": "joe", "expirationSeconds": 900,
            "usages": ["digital signature", "client auth"],
        },
    });
    request.as_object().unwrap().clone()
}

fn read(request: &Json) -> CertificateSigningRequest {
    request.read().unwrap()
}

fn signed(request: Json, pki: &Pki, now: Timestamp) -> Json {
    let result = signer::certificate(&read(&request), Signer::NodeClient, pki, now);
    signer::with_result(request, result, now)
}

fn decided(kind: &str, hour: i64) -> Json {
    with_condition(request("kubelet:n1"), kind, "r", "m", at_hour(hour))
}

#[test]
fn a_valid_request_is_signed_and_an_invalid_one_fails() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), at_hour(0)).unwrap();
    let good = read(&signed(decided("Approved", 1), &pki, at_hour(1)));
    assert!(good.is_signed() && !good.has("Failed"));
    let lives = crate::pki::validities(&good.certificate()).unwrap();
    assert_eq!((lives.len(), lives[0].name.as_str()), (2, "kubelet:n1"));
    assert_eq!(lives[0].until.as_second(), at_hour(1).as_second() + 900);
    let wrong = with_condition(request("jane"), "Approved", "r", "m", at_hour(1));
    let failed = signed(wrong, &pki, at_hour(1));
    assert!(!read(&failed).is_signed() && read(&failed).has("Failed"));
    let told = failed["status"]["conditions"].to_string();
    assert!(told.contains("SignerValidationFailure") && told.contains("subject common name"), "{told}");
}

#[test]
fn requests_are_deleted_at_the_ages_of_the_stock_cleaner() {
    let mut approved = decided("Approved", 1);
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), at_hour(0)).unwrap();
    let short = signed(approved.clone(), &pki, at_hour(1));
    approved["spec"]["expirationSeconds"] = 86_400.into();
    let long = signed(approved, &pki, at_hour(1));
    let mut timeless = decided("Denied", 1);
    timeless["status"]["conditions"][0]["lastUpdateTime"] = Value::Null;
    for (request, expected) in [
        (request("kubelet:n1"), at_hour(24)),
        (decided("Approved", 3), at_hour(4)),
        (decided("Denied", 3), at_hour(4)),
        (decided("Failed", 3), at_hour(4)),
        (with_condition(decided("Approved", 3), "Failed", "r", "m", at_hour(5)), at_hour(4)),
        (timeless, at_hour(1)),
        (long, at_hour(2)),
        // Its certificate expires earlier.
        (short, Timestamp::from_second(at_hour(1).as_second() + 900).unwrap()),
    ] {
        assert_eq!(cleaner::due(&read(&request)), Some(expected), "{request:?}");
    }
    assert_eq!(cleaner::due(&read(&Json::new())), None);
}

#[tokio::test]
async fn the_webhook_is_called_with_mutual_tls() {
    use apiserver::tls::{self, Keys};
    use axum::routing::post;
    use tokio::sync::watch;

    let directory = tempfile::tempdir().unwrap();
    let now = Timestamp::now();
    let pki = Pki::open(directory.path(), now).unwrap();
    let mut names = crate::pki::Names::default();
    names.add("127.0.0.1");
    let serving = pki.serving(&names, now).unwrap();
    let keys = Keys { chain: serving.chain, key: serving.key, client_authorities: pki.client_cas() };
    let (_swap, config) = watch::channel(tls::config(keys).unwrap());
    let (_stop, stopped) = watch::channel(false);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}/join", listener.local_addr().unwrap());
    let answer = async |request: axum::extract::Request| {
        let who = request.extensions().get::<apiserver::Identity>().unwrap().user.clone();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let join: Value = serde_json::from_slice(&body).unwrap();
        axum::Json(json!({"decision": "Deny", "message": format!("{who} asked for {}", join["node"])}))
    };
    let router = axum::Router::new().route("/join", post(answer));
    tokio::spawn(tls::serve(listener, router, config, stopped));
    let credentials = pki.client("approver", &[], now).unwrap();
    let of = |server: &str| {
        let (server, user, credentials) = (server.to_owned(), "approver".to_owned(), credentials.clone());
        Webhook::new(crate::kubeconfig::Kubeconfig { server, authority: pki.root_pem(), user, credentials })
            .unwrap()
    };
    let answer = of(&server).ask(&json!({"node": "n1"})).await.unwrap();
    assert_eq!(answer, json!({"decision": "Deny", "message": "approver asked for \"n1\""}));
    for wrong in [server.replace("/join", "/other"), "https://127.0.0.1:1/join".to_owned()] {
        assert!(of(&wrong).ask(&json!({})).await.is_err(), "{wrong}");
    }
}
