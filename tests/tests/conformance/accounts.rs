//! Service accounts, their tokens, and access reviews.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const HERE: &str = "/api/v1/namespaces/default";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

async fn account(cluster: &Cluster, name: &str, mounts: Option<bool>) {
    let account = json!({"metadata": {"name": name}, "automountServiceAccountToken": mounts});
    cluster.post(&format!("{HERE}/serviceaccounts"), &account).await.is(201);
}

#[tokio::test]
async fn a_pod_has_a_token_unless_it_or_its_account_opts_out() {
    let cluster = Cluster::running().await;
    let answers = [("default", None), ("mounts", Some(true)), ("bare", Some(false))];
    for (of_account, mounts) in answers {
        account(&cluster, &format!("of-{of_account}"), mounts).await;
        for (of_pod, own) in answers {
            let name = format!("{of_account}-{of_pod}");
            let spec = json!({"serviceAccountName": format!("of-{of_account}"), "automountServiceAccountToken": own,
                "containers": [{"name": "c", "image": "i"}]});
            let made = cluster
                .post(&format!("{HERE}/pods"), &json!({"metadata": {"name": name}, "spec": spec}))
                .await
                .is(201);
            let is_mounted = made["spec"]["containers"][0]["volumeMounts"].as_array().is_some_and(|mounts| {
                mounts
                    .iter()
                    .any(|mount| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount")
            });
            assert_eq!(is_mounted, own.or(mounts).unwrap_or(true), "{name}: {made}");
        }
    }
}

#[tokio::test]
async fn token_review_authenticates_a_service_account_token() {
    let cluster = Cluster::running().await;
    account(&cluster, "web", None).await;
    let path = format!("{HERE}/serviceaccounts/web/token");
    let made = cluster.post(&path, &json!({"spec": {"expirationSeconds": 600}})).await.is(201);
    let review = json!({"spec": {"token": made["status"]["token"]}});
    let answer = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.is(201);
    assert_eq!(answer["status"]["authenticated"], true, "{answer}");
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:web");
    assert!(
        answer["status"]["user"]["groups"].as_array().unwrap().contains(&json!("system:serviceaccounts"))
    );
}

#[tokio::test]
async fn service_account_can_be_updated() {
    let cluster = Cluster::running().await;
    account(&cluster, "web", Some(false)).await;
    let path = format!("{HERE}/serviceaccounts/web");
    cluster.update(&path, |account| account["automountServiceAccountToken"] = json!(true)).await;
    assert_eq!(cluster.get(&path).await.is(200)["automountServiceAccountToken"], true);
}

#[tokio::test]
async fn access_reviews_work_cluster_wide_and_in_a_namespace() {
    let cluster = Cluster::running().await;
    cluster.namespace("asked").await;
    let user = "system:serviceaccount:asked:default";
    let access_review = json!({"spec": {"user": user, "resourceAttributes": {"namespace": "asked", "verb": "get", "resource": "configmaps"}}});
    let local = format!("{AUTHORIZATION}/namespaces/asked/localsubjectaccessreviews");
    let review_answer = async |path: &str, expected: bool| {
        let answer = cluster.post(path, &access_review).await.is(201);
        assert_eq!(answer["status"]["allowed"], json!(expected), "{path}: {answer}");
    };
    review_answer(&local, false).await;
    review_answer(&format!("{AUTHORIZATION}/subjectaccessreviews"), false).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/asked";
    cluster.post(&format!("{rbac}/roles"), &json!({"metadata": {"name": "r"}, "rules": rules})).await.is(201);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "asked"}]});
    cluster.post(&format!("{rbac}/rolebindings"), &binding).await.is(201);
    review_answer(&local, true).await;
    review_answer(&format!("{AUTHORIZATION}/subjectaccessreviews"), true).await;
    // The request itself is authorized the same way.
    let headers = [("impersonate-user", user)];
    let path = "/api/v1/namespaces/asked/configmaps/kube-root-ca.crt";
    cluster.until(path, |map| map["data"] != Value::Null).await;
    cluster.send("GET", path, &headers, "").await.is(200);
    cluster
        .send("GET", &format!("{HERE}/secrets/x"), &headers, "")
        .await
        .refuses(403, "cannot get resource \"secrets\"");
}
