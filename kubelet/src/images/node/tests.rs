//! Files and helpers of a node.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn image(name: &str) -> ImageName {
    ImageName::parse(name).unwrap()
}

fn keys(content: &str) -> (tempfile::TempDir, NodeKeys) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, content).unwrap();
    (folder, NodeKeys { files: vec![file, "/no/such/config.json".into()] })
}

#[tokio::test]
async fn a_file_of_docker_is_read() {
    let (_folder, keys) = keys(r#"{"auths": {"quay.io": {"auth": "YTpi"}}, "HttpHeaders": {}}"#);
    let found = keys.find(&image("quay.io/x")).await;
    assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("a", "b"));
    assert!(keys.find(&image("busybox")).await.is_empty());
}

#[tokio::test]
async fn a_broken_file_or_helper_is_no_end() {
    let (_folder, keys) = keys("{");
    assert!(keys.find(&image("quay.io/x")).await.is_empty());
    for helper in ["../evil", "no-such-helper"] {
        assert!(ask(helper, &image("quay.io/x")).await.is_err());
    }
}

#[test]
fn a_helper_is_for_its_registry() {
    assert!(is_server("quay.io", &image("quay.io/x")));
    assert!(is_server("https://index.docker.io/v1/", &image("busybox")));
    assert!(!is_server("quay.io", &image("busybox")));
}
