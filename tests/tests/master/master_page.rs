//! The page at `/ui/` of the master in a real browser: the objects of the cluster with the token of a service account.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tests::browser::LOOKS;
use tests::{Browser, IMAGE, Master};

/// What the page reads, as in `docs/ui.md`.
const RESOURCES: &str = "nodes,namespaces,pods,pods/log,events,persistentvolumes,persistentvolumeclaims,deployments.apps,\
                         statefulsets.apps,daemonsets.apps,certificatesigningrequests.certificates.k8s.io,\
                         nodes.metrics.k8s.io,pods.metrics.k8s.io";

/// Output of a kubectl command that must succeed, as administrator.
async fn admin(master: &Master, arguments: &str) -> String {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), &arguments).await;
    assert!(output.code == 0, "kubectl {arguments:?}: {output:?}\n{}", master.log());
    output.stdout
}

/// Creates an object from JSON.
async fn create(master: &Master, object: &Value) {
    let path = master.data_dir().join("object.json");
    fs::write(&path, object.to_string()).unwrap();
    admin(master, &format!("create -f {}", path.display())).await;
}

/// A token of a new service account in `default`.
async fn token(master: &Master, account: &str) -> String {
    admin(master, &format!("create serviceaccount {account}")).await;
    let path = master.data_dir().join("request.json");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    fs::write(&path, request.to_string()).unwrap();
    let url = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let answer = admin(master, &format!("create --raw {url} -f {}", path.display())).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "main", "image": IMAGE}]}})
}

/// A cluster with a node that does not answer, a pod that waits, and a certificate signing request.
async fn cluster() -> Master {
    let master = Master::running().await;
    admin(&master, "create namespace shop").await;
    master.until_account("shop").await;
    create(&master, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "oak"}})).await;
    create(&master, &pod("lamp")).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "lamp.1", "namespace": "shop"}, "type": "Warning",
        "reason": "FailedScheduling", "message": "no nodes available",
        "involvedObject": {"kind": "Pod", "name": "lamp", "namespace": "shop"},
    });
    create(&master, &event).await;
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(["jane".to_owned()]).unwrap().serialize_request(&key).unwrap();
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "of-jane"},
        "spec": {"request": STANDARD.encode(signed.pem().unwrap()), "usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client"},
    });
    create(&master, &request).await;
    admin(&master, &format!("create clusterrole page-viewer --verb=get,list,watch --resource={RESOURCES}"))
        .await;
    admin(&master, "create clusterrolebinding page --clusterrole=page-viewer --serviceaccount=default:page")
        .await;
    master
}

#[tokio::test]
async fn the_page_of_the_master_shows_the_cluster_and_follows_it() {
    let master = cluster().await;
    let token = token(&master, "page").await;
    let browser = Browser::start().await;
    browser.open(&master.url("/ui")).await;
    browser.wait_for("document.activeElement?.id === 'token'").await;
    let codes = "return Promise.all(['../api/v1', '../api/v1/pods', '../apis'].map((path) => fetch(path).then(({status}) => status)))";
    let refused = browser.run(codes).await;
    assert!(refused.as_array().unwrap().iter().all(|code| *code == 401 || *code == 403), "{refused}");
    browser.press(&format!("{token}\u{e007}")).await;
    browser.wait_for("document.getElementById('link')?.textContent === 'Live'").await;
    browser.run("window.isSamePage = true").await;
    for (view, shown) in [
        ("#/", "Certificate requests"),
        ("#/nodes", "oak"),
        ("#/nodes/oak", "Memory: unknown"),
        ("#/namespaces", "shop"),
        ("#/workloads", "StatefulSets"),
        ("#/pods", "lamp"),
        ("#/pods/shop/lamp", "Pending"),
        ("#/events", "no nodes available"),
        ("#/images", "No images"),
        ("#/volumes", "Persistent volumes"),
        ("#/requests", "of-jane"),
    ] {
        browser.run(&format!("location.hash = {}", json!(view))).await;
        browser.wait_for_text(shown).await;
        for look in LOOKS {
            browser.set_look(look).await;
            assert_eq!(browser.violations().await, [""; 0], "{view} {look:?}");
        }
    }
    browser.run("location.hash = '#/pods/shop'").await;
    browser.wait_for_text("lamp").await;
    create(&master, &pod("table")).await;
    browser.wait_for_text("table").await;
    admin(&master, "delete pod lamp -n shop --grace-period=0 --force").await;
    browser.wait_for("!document.body.innerText.includes('lamp')").await;
    assert_eq!(browser.run("return window.isSamePage").await, true);
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test]
async fn the_page_of_the_master_says_what_a_user_may_not_read() {
    let master = cluster().await;
    let token = token(&master, "guest").await;
    let browser = Browser::start().await;
    browser.open(&master.url(&format!("/ui/#token={token}"))).await;
    browser.wait_for("document.getElementById('link')?.textContent === 'Live'").await;
    browser.run("location.hash = '#/pods'").await;
    browser.wait_for_text("Not permitted: pods is forbidden").await;
    assert!(!browser.text().await.contains("lamp"));
}
