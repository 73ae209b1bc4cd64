//! CertificateSigningRequests by several users.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::auth::{Issuer, Signer, rbac::Kind};
use crate::registry::Registry;
use crate::watch_cache::{Draft, WatchCache};
use crate::{Api, Catalog, VERSION, kinds, storage};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The API with roles for approving and signing; users are named after their permission.
async fn router() -> Router {
    let roles = WatchCache::new(1);
    let put = |kind: Kind, object: Value| {
        roles.put(&kind.qualified(), &Draft::new(object.as_object().unwrap(), &[].into()));
    };
    for (user, verb, signer) in [
        ("exact", "approve", "example.com/a"),
        ("domain", "approve", "example.com/*"),
        ("signer", "sign", "example.com/a"),
    ] {
        let rule = json!({"apiGroups": [GROUP], "resources": ["signers"], "verbs": [verb], "resourceNames": [signer]});
        put(Kind::ClusterRole, json!({"metadata": {"name": user}, "rules": [rule]}));
        let subjects = json!([{"kind": "User", "name": user}]);
        let role = json!({"kind": "ClusterRole", "name": user});
        put(
            Kind::ClusterRoleBinding,
            json!({"metadata": {"name": user}, "roleRef": role, "subjects": subjects}),
        );
    }
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://10.0.0.1:6443".to_owned() };
    let auth = Auth::new(roles, signer, issuer);
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let plugins: Vec<Arc<dyn Admission>> = vec![
        Arc::new(CertificateRequester),
        Arc::new(CertificateApproval(auth.clone())),
        Arc::new(CertificateSigning(auth)),
        Arc::new(CertificateSubjectRestriction),
    ];
    Api::writable(registry, plugins, VERSION).router()
}

async fn send_request(router: &Router, who: &Identity, line: &str, body: &Value) -> (u16, Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let request = request.extension(who.clone()).body(Body::from(body.to_string())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
}

fn user(name: &str) -> Identity {
    Identity::authenticated(name, ["dev".to_owned()])
}

/// A request whose subject is in that group.
fn request(name: &str, signer: &str, group: &str) -> Value {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]},
    })
}

#[tokio::test]
async fn csr_username_is_the_requester_and_immutable() {
    let router = router().await;
    let mut sent = request("a", "example.com/a", "dev");
    sent["spec"]["username"] = "system:node:other".into();
    sent["spec"]["uid"] = "9".into();
    sent["spec"]["groups"] = json!(["system:nodes"]);
    sent["spec"]["extra"] = json!({"a": ["b"]});
    let mut joe = user("joe");
    joe.extra.insert("key".to_owned(), vec!["value".to_owned()]);
    let (code, made) = send_request(&router, &joe, &format!("POST {PATH}"), &sent).await;
    assert_eq!(code, 201, "{made}");
    let who = |object: &Value| {
        let spec = &object["spec"];
        (spec["username"].clone(), spec["uid"].clone(), spec["groups"].clone(), spec["extra"].clone())
    };
    let expected =
        ("joe".into(), Value::Null, json!(["dev", "system:authenticated"]), json!({"key": ["value"]}));
    assert_eq!(who(&made), expected);
    let other = json!({"spec": {"username": "system:node:other"}});
    let (_, patched) = send_request(&router, &user("mary"), &format!("PATCH {PATH}/a"), &other).await;
    assert_eq!(who(&patched), expected);
}

#[tokio::test]
async fn approving_and_signing_needs_permission_for_the_signer() {
    let router = router().await;
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}});
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    let signed = json!({"status": {"certificate": STANDARD.encode("-----BEGIN CERTIFICATE-----")}});
    let refused = "user not permitted to";
    for (who, part, patch, expected) in [
        ("joe", "approval", &approved, refused),
        ("signer", "approval", &approved, refused),
        ("exact", "approval", &approved, ""),
        ("domain", "approval", &approved, ""),
        ("joe", "status", &signed, refused),
        ("exact", "status", &signed, refused),
        ("exact", "status", &failed, refused),
        ("signer", "status", &signed, ""),
        ("joe", "status", &json!({"metadata": {"labels": {"a": "b"}}}), ""),
    ] {
        let name = format!("{who}-{part}-{}", patch.to_string().len());
        let sent = request(&name, "example.com/a", "dev");
        assert_eq!(send_request(&router, &user("joe"), &format!("POST {PATH}"), &sent).await.0, 201);
        let (code, answer) =
            send_request(&router, &user(who), &format!("PATCH {PATH}/{name}/{part}"), patch).await;
        assert_eq!(code, if expected.is_empty() { 200 } else { 403 }, "{name} {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(expected), "{answer}");
    }
}

#[tokio::test]
async fn a_request_for_the_identity_of_a_master_is_rejected() {
    let router = router().await;
    let mut broken = request("broken", CLIENTS, "dev");
    broken["spec"]["request"] = STANDARD
        .encode("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
        .into();
    for (sent, expected) in [
        (request("masters", CLIENTS, MASTERS), 403),
        (broken, 403),
        (request("dev", CLIENTS, "dev"), 201),
        (request("elsewhere", "example.com/a", MASTERS), 201),
    ] {
        let (code, answer) = send_request(&router, &user("joe"), &format!("POST {PATH}"), &sent).await;
        assert_eq!(code, expected, "{answer}");
    }
}
