//! Authentication and authorization over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use axum::body::{Body, to_bytes};
use axum::{Extension, Router};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rbac::{Kind, bootstrap_policy};
use super::*;
use crate::watch_cache::Draft;

const ISSUER: &str = "https://issuer.example";

/// A protected router that reports the user, with the bootstrap roles.
struct Bed {
    store: WatchCache,
    router: Router,
}

impl Bed {
    fn new() -> Self {
        let store = WatchCache::new(1);
        for (kind, object) in bootstrap_policy::objects() {
            store.put(&kind.qualified(), &Draft::new(&object, &[].into()));
        }
        let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
        let issuer = Issuer { name: ISSUER.to_owned(), server: "https://10.0.0.1:6443".to_owned() };
        let who =
            |Extension(who): Extension<Identity>| async move { format!("{} {:?}", who.user, who.groups) };
        let router = Auth::new(store.clone(), signer, issuer).guard(Router::new().fallback(who));
        Self { store, router }
    }

    fn put(&self, resource: &str, object: Value) {
        self.store.put(resource, &Draft::new(object.as_object().unwrap(), &[].into()));
    }

    /// Grants a user `verb resource`.
    fn allow(&self, user: &str, verb: &str, group: &str, resource: &str) {
        let name = format!("{user}-{verb}-{}", resource.replace('/', "-"));
        let rules = json!([{"verbs": [verb], "apiGroups": [group], "resources": [resource]}]);
        self.put(&Kind::ClusterRole.qualified(), json!({"metadata": {"name": name}, "rules": rules}));
        let subjects = json!([{"kind": "User", "name": user}]);
        let role = json!({"kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
        self.put(&Kind::ClusterRoleBinding.qualified(), binding);
    }

    async fn send_request(
        &self,
        who: Option<Identity>,
        line: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, String) {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let mut request = request.body(body).unwrap();
        request.extensions_mut().extend(
            who.map(|who| {
                let mut extensions = http::Extensions::new();
                extensions.insert(who);
                extensions
            })
            .unwrap_or_default(),
        );
        let response = self.router.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Creates a review and returns its status.
    async fn question(&self, who: &Identity, path: &str, spec: Value) -> Value {
        let body = json!({"spec": spec});
        let (code, answer) = self.send_request(Some(who.clone()), &format!("POST {path}"), &[], &body).await;
        assert_eq!(code, 201, "{path} {answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["status"].clone()
    }
}

fn joe() -> Identity {
    Identity::authenticated("joe", ["dev".to_owned()])
}

fn admin() -> Identity {
    Identity::authenticated("admin", ["system:masters".to_owned()])
}

#[tokio::test]
async fn requests_without_a_role_are_rejected() {
    let bed = Bed::new();
    for (who, line, expected) in [
        (None, "GET /healthz", 200),
        (None, "GET /version", 200),
        (None, "GET /api", 403),
        (None, "GET /nowhere", 403),
        (None, "GET /api/v1/pods", 403),
        (Some(joe()), "GET /api", 200),
        (Some(joe()), "GET /apis/apps/v1", 200),
        (Some(joe()), "GET /api/v1/pods", 403),
        (Some(joe()), "POST /version", 403),
        (Some(admin()), "DELETE /anything", 200),
    ] {
        assert_eq!(bed.send_request(who, line, &[], &Value::Null).await.0, expected, "{line}");
    }
    bed.allow("joe", "get", "", "pods/exec");
    let exec = "GET /api/v1/namespaces/d/pods/a/exec";
    let (code, refused) = bed.send_request(Some(joe()), exec, &[], &Value::Null).await;
    assert!(code == 403 && refused.contains("cannot create resource"), "{refused}");
    bed.allow("joe", "create", "", "pods/exec");
    assert_eq!(bed.send_request(Some(joe()), exec, &[], &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_bad_token_is_rejected_and_a_certificate_needs_no_token() {
    let bed = Bed::new();
    for (value, expected) in [
        ("Bearer nonsense", 401),
        ("bearer a.b.c", 401),
        ("Bearer ", 401),
        ("Bearer abcdef.0123456789abcdef", 401),
        ("Basic am9lOnNlY3JldA==", 200),
    ] {
        let (code, answer) =
            bed.send_request(None, "GET /healthz", &[("authorization", value)], &Value::Null).await;
        assert_eq!(code, expected, "{value}");
        if code == 401 {
            let status: Value = serde_json::from_str(&answer).unwrap();
            // Tokens that look like bootstrap tokens get a more specific message.
            let (message, is_bootstrap) = (status["message"].as_str().unwrap(), value.contains("abcdef."));
            let fits = message.starts_with("Unauthorized: there is no such bootstrap token") == is_bootstrap;
            assert!(fits && (is_bootstrap || message == "Unauthorized"), "{value}: {message}");
            assert_eq!(status["reason"], "Unauthorized");
            let cause = &status["details"]["causes"][0]["reason"];
            assert_eq!(cause == "BootstrapTokenUnknown", is_bootstrap, "{value}: {status}");
        }
        let known =
            bed.send_request(Some(joe()), "GET /api", &[("authorization", value)], &Value::Null).await;
        assert_eq!(known.0, 200, "a certificate counts more than {value}");
    }
}

#[tokio::test]
async fn impersonation_needs_permission() {
    let bed = Bed::new();
    let as_ann = [("impersonate-user", "ann"), ("impersonate-group", "dev")];
    let (code, refused) = bed.send_request(Some(joe()), "GET /api", &as_ann, &Value::Null).await;
    let expected = r#"users \"ann\" is forbidden: User \"joe\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"#;
    assert!(code == 403 && refused.contains(expected), "{refused}");
    bed.allow("joe", "impersonate", "", "users");
    let (code, refused) = bed.send_request(Some(joe()), "GET /api", &as_ann, &Value::Null).await;
    assert!(code == 403 && refused.contains(r#"groups \"dev\" is forbidden"#), "{refused}");
    bed.allow("joe", "impersonate", "", "groups");
    let found = bed.send_request(Some(joe()), "GET /api", &as_ann, &Value::Null).await;
    assert_eq!(found, (200, r#"ann ["dev", "system:authenticated"]"#.to_owned()));
    let found = bed.send_request(Some(admin()), "GET /api/v1/pods", &as_ann, &Value::Null).await;
    assert_eq!(found.0, 403, "an administrator who acts as ann may what ann may");
    let half = bed.send_request(Some(admin()), "GET /api", &as_ann[1..], &Value::Null).await;
    assert_eq!(half.0, 400);
}

#[tokio::test]
async fn access_reviews_are_answered() {
    let bed = Bed::new();
    bed.allow("joe", "list", "", "pods");
    let who = bed.question(&joe(), "/apis/authentication.k8s.io/v1/selfsubjectreviews", Value::Null).await;
    assert_eq!(who, json!({"userInfo": {"username": "joe", "groups": ["dev", "system:authenticated"]}}));
    let group = "/apis/authorization.k8s.io/v1";
    let pods = json!({"verb": "list", "resource": "pods"});
    let may = bed
        .question(&joe(), &format!("{group}/selfsubjectaccessreviews"), json!({"resourceAttributes": pods}))
        .await;
    assert_eq!(
        may,
        json!({"allowed": true, "reason": r#"RBAC: allowed by ClusterRoleBinding "joe-list-pods" of ClusterRole "joe-list-pods" to User "joe""#})
    );
    let subject = format!("{group}/subjectaccessreviews");
    for (spec, expected) in [
        (json!({"user": "joe", "resourceAttributes": pods}), true),
        (json!({"user": "ann", "resourceAttributes": pods}), false),
        (json!({"user": "ann", "groups": ["system:masters"], "resourceAttributes": pods}), true),
        (json!({"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/api"}}), false),
        (
            json!({"groups": ["system:authenticated"], "nonResourceAttributes": {"verb": "get", "path": "/api"}}),
            true,
        ),
    ] {
        let status = bed.question(&admin(), &subject, spec.clone()).await;
        assert_eq!(status["allowed"], expected, "{spec}");
    }
    for spec in [
        json!({}),
        json!({"user": "joe"}),
        json!({"resourceAttributes": pods}),
        json!({"user": "joe", "resourceAttributes": pods, "nonResourceAttributes": {"path": "/"}}),
    ] {
        let (code, answer) =
            bed.send_request(Some(admin()), &format!("POST {subject}"), &[], &json!({"spec": spec})).await;
        assert_eq!(code, 422, "{spec} {answer}");
    }
    let rules =
        bed.question(&joe(), &format!("{group}/selfsubjectrulesreviews"), json!({"namespace": "d"})).await;
    assert!(
        rules["resourceRules"].as_array().unwrap().iter().any(|rule| rule["resources"] == json!(["pods"])),
        "{rules}"
    );
    assert!(!rules["nonResourceRules"].as_array().unwrap().is_empty());
    let local = format!("POST {group}/namespaces/shop/localsubjectaccessreviews");
    let spec = json!({"spec": {"user": "joe", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}});
    assert_eq!(bed.send_request(Some(admin()), &local, &[], &spec).await.0, 400);
}

#[tokio::test]
async fn access_reviews_are_not_stored() {
    let bed = Bed::new();
    let group = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (line, expected) in [
        (format!("GET {group}"), 405),
        (format!("GET {group}?watch=true"), 405),
        (format!("PATCH {group}/x?fieldManager=x"), 405),
        (format!("PUT {group}/x"), 405),
        (format!("POST {group}/x"), 404),
        ("POST /apis/authorization.k8s.io/v1/localsubjectaccessreviews".to_owned(), 404),
        ("GET /api/v1/namespaces/d/serviceaccounts/a/token".to_owned(), 405),
        ("POST /api/v1/namespaces/d/serviceaccounts/a/token".to_owned(), 404),
    ] {
        let (code, answer) = bed.send_request(Some(admin()), &line, &[], &json!({})).await;
        assert_eq!(code, expected, "{line} {answer}");
    }
    for body in [json!([]), json!({"kind": "Pod"}), json!({"apiVersion": "v1"})] {
        let (code, _) = bed.send_request(Some(admin()), &format!("POST {group}"), &[], &body).await;
        assert_eq!(code, 400, "{body}");
    }
}

#[tokio::test]
async fn service_account_tokens_are_invalid_after_its_deletion() {
    let bed = Bed::new();
    let account = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}});
    bed.put("serviceaccounts", account.clone());
    bed.put("pods", json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u2"}, "spec": {"serviceAccountName": "web"}}));
    let path = "/api/v1/namespaces/shop/serviceaccounts/web/token";
    let pod = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}});
    let bound = bed.question(&admin(), path, pod).await;
    let (free, other) = (
        bed.question(&admin(), path, json!({"expirationSeconds": 600})).await,
        bed.question(&admin(), path, json!({"audiences": ["vault"]})).await,
    );
    let token = |status: &Value| status["token"].as_str().unwrap().to_owned();
    let send_request = async |token: &str| {
        bed.send_request(None, "GET /api", &[("authorization", &format!("Bearer {token}"))], &Value::Null)
            .await
    };
    let seen = r#"system:serviceaccount:shop:web ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]"#;
    assert_eq!(send_request(&token(&bound)).await, (200, seen.to_owned()));
    assert_eq!(send_request(&token(&free)).await.0, 200);
    let (code, refused) = send_request(&token(&other)).await;
    assert!(code == 401 && refused.contains("the token is for vault"), "{refused}");
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let found =
        bed.question(&admin(), review, json!({"token": token(&other), "audiences": ["x", "vault"]})).await;
    assert_eq!((&found["authenticated"], &found["audiences"]), (&true.into(), &json!(["vault"])));
    let found = bed.question(&admin(), review, json!({"token": token(&bound)})).await;
    assert_eq!(found["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(found["audiences"], json!([ISSUER]));
    assert_eq!(bed.question(&admin(), review, json!({"token": "x"})).await["error"], "invalid bearer token");

    bed.store.delete("pods", "shop", "p");
    let (code, refused) = send_request(&token(&bound)).await;
    assert!(code == 401 && refused.contains("the pod"), "{refused}");
    assert_eq!(send_request(&token(&free)).await.0, 200);
    bed.store.delete("serviceaccounts", "shop", "web");
    assert_eq!(send_request(&token(&free)).await.0, 401);
    bed.put("serviceaccounts", json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u9"}}));
    assert_eq!(send_request(&token(&free)).await.0, 401, "another account of that name");
}

#[tokio::test]
async fn invalid_token_requests_are_rejected() {
    let bed = Bed::new();
    bed.put("serviceaccounts", json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}}));
    bed.put("pods", json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u2"}, "spec": {}}));
    let to = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}});
    bed.put("secrets", json!({"metadata": {"name": "s", "namespace": "shop", "uid": "u3"}}));
    for (spec, expected) in [
        (json!({"expirationSeconds": 599}), 422),
        (json!({"expirationSeconds": 1_i64 << 33}), 422),
        (to("Pod", "p", ""), 400),
        (to("Pod", "absent", ""), 404),
        (to("Deployment", "p", ""), 400),
        (to("Secret", "s", "u4"), 409),
        (to("Secret", "s", "u3"), 201),
    ] {
        let path = "POST /api/v1/namespaces/shop/serviceaccounts/web/token";
        let (code, answer) = bed.send_request(Some(admin()), path, &[], &json!({"spec": spec})).await;
        assert_eq!(code, expected, "{spec} {answer}");
    }
}

#[tokio::test]
async fn oidc_discovery_publishes_issuer_and_keys() {
    let bed = Bed::new();
    let account = Identity::authenticated("x", ["system:serviceaccounts".to_owned()]);
    let path = "GET /.well-known/openid-configuration";
    let (code, document) = bed.send_request(Some(account.clone()), path, &[], &Value::Null).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((code, &document["issuer"]), (200, &ISSUER.into()));
    assert_eq!(document["jwks_uri"], "https://10.0.0.1:6443/openid/v1/jwks");
    let (_, keys) = bed.send_request(Some(account), "GET /openid/v1/jwks", &[], &Value::Null).await;
    assert_eq!(serde_json::from_str::<Value>(&keys).unwrap()["keys"][0]["alg"], "ES256");
    assert_eq!(bed.send_request(None, "GET /openid/v1/jwks", &[], &Value::Null).await.0, 403);
}
