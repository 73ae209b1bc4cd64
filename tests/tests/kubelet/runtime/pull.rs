//! Image pulls from a real registry, with and without a password.

use std::sync::Arc;

use kubelet::images::keyring::Keyring;
use kubelet::images::{Error, ImageCollector, Images, Policy, Pulled};
use kubelet::metrics::Metrics;
use kubelet::observed::Timestamp;
use kubelet::options::ImageGc;
use kubelet::runtime::docker::{Docker, Settings};
use tests::{Engine, PASSWORD, Registry, USER};

/// The images of a node without credentials of its own.
fn images() -> (Images, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    let docker = Docker::connect(&Engine::endpoint(), "pull", Settings::default()).unwrap();
    let (docker, metrics) = (Arc::new(docker), Arc::new(Metrics::new("n", "v1.36.0")));
    let now = Timestamp::now();
    let collector =
        ImageCollector::new(docker.clone(), ImageGc::default(), root.path(), metrics.clone(), now);
    (Images::new(docker, 2, root.path(), metrics, Arc::new(collector)), root)
}

/// The secret that `kubectl create secret docker-registry` creates.
fn keyring(server: &str, user: &str, password: &str) -> Keyring {
    let config = serde_json::json!({ "auths": { server: { "username": user, "password": password } } });
    let secret = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "pull" },
        "type": "kubernetes.io/dockerconfigjson",
        "data": { ".dockerconfigjson": k8s_openapi::ByteString(config.to_string().into_bytes()) },
    }));
    let (keyring, problems) = Keyring::of_secrets([&secret.unwrap()]);
    assert_eq!(problems, []);
    keyring
}

#[tokio::test]
async fn an_image_is_pulled_from_a_registry() {
    let registry = Registry::open().await;
    let name = registry.push(&Engine::connect().await, "pulled", "1").await;
    let (images, _root) = images();
    let none = Keyring::default();
    let refused = images.ensure(&name, Policy::Never, &none, &|_| {}).await;
    assert_eq!(refused.unwrap_err().reason(), "ErrImageNeverPull");

    let reports = std::sync::Mutex::new(0);
    let (image, pulled) =
        images.ensure(&name, Policy::IfNotPresent, &none, &|_| *reports.lock().unwrap() += 1).await.unwrap();
    assert_eq!(pulled, Pulled::Fetched);
    assert!(image.repo_digest.unwrap().contains("@sha256:"));
    assert!(*reports.lock().unwrap() >= 1, "the start of the pull is reported");
    let (_, pulled) = images.ensure(&name, Policy::IfNotPresent, &none, &|_| {}).await.unwrap();
    assert_eq!(pulled, Pulled::Present);
    let (_, pulled) = images.ensure(&name, Policy::Always, &none, &|_| {}).await.unwrap();
    assert_eq!(pulled, Pulled::Fetched);

    let absent = name.replace("pulled:1", "absent:1");
    let error = images.ensure(&absent, Policy::IfNotPresent, &none, &|_| {}).await.unwrap_err();
    assert_eq!(error.reason(), "ErrImagePull");
    assert!(matches!(&error, Error::Pull(kubelet::runtime::Error::NotFound { .. })), "{error}");
}

#[tokio::test]
async fn pull_from_a_private_registry_needs_credentials() {
    let registry = Registry::with_password().await;
    let name = registry.push(&Engine::connect().await, "guarded", "1").await;
    let server = &registry.address();
    let (images, root) = images();
    let ensure = async |keyring: &Keyring| images.ensure(&name, Policy::Always, keyring, &|_| {}).await;

    let error = ensure(&Keyring::default()).await.unwrap_err().to_string();
    assert!(error.contains("no basic auth credentials"), "{error}");
    let error = ensure(&keyring(server, USER, "wrong")).await.unwrap_err().to_string();
    assert!(error.contains("unauthorized"), "{error}");
    assert_eq!(ensure(&keyring(server, USER, PASSWORD)).await.unwrap().1, Pulled::Fetched);

    let config = serde_json::json!({ "auths": { server: { "username": USER, "password": PASSWORD } } });
    std::fs::write(root.path().join("config.json"), config.to_string()).unwrap();
    assert_eq!(ensure(&Keyring::default()).await.unwrap().1, Pulled::Fetched, "the node's own");
}
