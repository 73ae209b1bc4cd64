//! Damaged tokens, certificate signing requests and user names.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::damage::{damaged, edits};
use crate::fuzz;
use crate::server::{Server, admin};

#[test]
fn damaged_token_authenticates_no_user() {
    let server = Server::new();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let json = |method: &str, path: &str| admin(method, path).header("content-type", "application/json");
    let made = server.send_request(json("POST", path), br#"{"spec":{"audiences":[]}}"#).unwrap();
    let token = made.body["status"]["token"].as_str().unwrap().to_owned();
    let parts: Vec<Vec<u8>> = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
    let whole = |path: &str, token: &[u8]| {
        let header = http::HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok()?;
        Some(http::Request::get(path).header("authorization", header))
    };
    let me = "/api/v1/namespaces/default";
    let known = server.send_request(whole(me, token.as_bytes()).unwrap(), b"").unwrap();
    assert_eq!(known.code, 403, "known, and without a role: {known:?}");
    fuzz(3000, &(0..4_usize, edits()), |(part, edits)| {
        let sent = match parts.get(part) {
            // Damages the encoded text, or the decoded content of one part.
            None => damaged(token.as_bytes(), &edits),
            Some(inner) => {
                let mut parts = parts.clone();
                parts[part] = damaged(inner, &edits);
                let parts: Vec<String> = parts.iter().map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
                parts.join(".").into_bytes()
            }
        };
        let Some(request) = whole(me, &sent) else { return Ok(()) };
        let answer = server.send_request(request, b"")?;
        let is_whole = sent.trim_ascii() == token.as_bytes();
        prop_assert!(answer.code == 401 || is_whole, "{answer:?} for {}", sent.escape_ascii());
        // A token review of the same token by another user.
        let review = json!({"spec": {"token": String::from_utf8_lossy(&sent)}}).to_string();
        let reviewed = server
            .send_request(json("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), review.as_bytes())?;
        let is_known = reviewed.body["status"]["authenticated"] == true;
        prop_assert!(is_whole || !is_known, "{reviewed:?} for {}", sent.escape_ascii());
        Ok(())
    });
}

#[test]
fn damaged_csr_is_rejected_or_stored_unchanged() {
    let server = Server::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["kubelet".to_owned()]).unwrap();
    let request = params.serialize_request(&key).unwrap();
    let (der, pem) = (request.der().to_vec(), request.pem().unwrap());
    let sent = |pem: &[u8], name: &str| -> Value {
        json!({"metadata": {"generateName": name}, "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        }})
    };
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let post = || admin("POST", path).header("content-type", "application/json");
    let made = server.send_request(post(), sent(pem.as_bytes(), "a-").to_string().as_bytes()).unwrap();
    assert_eq!(made.code, 201, "{made:?}");
    fuzz(2000, &(any::<bool>(), edits()), |(is_inside, edits)| {
        let bytes = if is_inside {
            let text = STANDARD.encode(damaged(&der, &edits));
            format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
                .into_bytes()
        } else {
            damaged(pem.as_bytes(), &edits)
        };
        server.send_request(post(), sent(&bytes, "b-").to_string().as_bytes()).map(drop)
    });
}

#[test]
fn a_damaged_name_never_authenticates_as_another_user() {
    let server = Server::new();
    fuzz(1000, &(edits(), edits(), edits()), |(user, group, extra)| {
        let mut request = admin("GET", "/api/v1/pods");
        for (name, value, edits) in [
            ("impersonate-user", "system:serviceaccount:default:default", user),
            ("impersonate-group", "system:authenticated", group),
            ("impersonate-extra-scopes%2fa", "view", extra),
        ] {
            let value = damaged(value.as_bytes(), &edits);
            let Ok(value) = http::HeaderValue::from_bytes(&value) else { return Ok(()) };
            request = request.header(name, value);
        }
        let answer = server.send_request(request, b"")?;
        prop_assert!(answer.code >= 400 || answer.body["kind"] == "PodList", "{answer:?}");
        Ok(())
    });
}
