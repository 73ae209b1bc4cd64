//! Objects changed by admission.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Adds limits to every container, as a client might write them: an amount as a number.
struct Limiter;

#[async_trait::async_trait]
impl Admission for Limiter {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let containers = attempt.object["spec"]["containers"].as_array().map_or(0, Vec::len);
        for at in 0..containers {
            attempt.object["spec"]["containers"][at]["resources"] = json!({"limits": {"cpu": 0.5}});
        }
        Ok(())
    }
}

/// Adds invalid values to new objects.
struct Vandal;

#[async_trait::async_trait]
impl Admission for Vandal {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        attempt.object.insert("spec".to_owned(), json!({"replicas": "many"}));
        Ok(())
    }
}

#[tokio::test]
async fn server_defaults_and_stores_objects_changed_by_admission() {
    let server = Server::of(resources(), |_| vec![Arc::new(Limiter)]).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}});
    let (code, made) = server.json("POST", PODS, pod).await;
    assert_eq!(code, 201, "{made}");
    let expected = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], expected);
}

#[tokio::test]
async fn server_rejects_invalid_objects_changed_by_admission() {
    let server = Server::of(resources(), |_| vec![Arc::new(Vandal)]).await;
    let (code, refused) =
        server.json("POST", DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": {}})).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["field"]),
        (422, &json!("spec.replicas")),
        "{refused}"
    );
}

/// Treats empty maps as placeholders.
struct Keeper;

impl Admission for Keeper {
    fn is_placeholder(&self, _: &Resource, there: &Json, _: &Identity) -> bool {
        there.get("data").is_none()
    }
}

#[tokio::test]
async fn create_replaces_a_placeholder_exactly_once() {
    let server = Server::of(resources(), |_| vec![Arc::new(Keeper)]).await;
    let (code, kept) =
        server.json("POST", MAPS, json!({"metadata": {"name": "m", "labels": {"a": "b"}}})).await;
    assert_eq!(code, 201, "{kept}");
    let (code, tried) = server.json("POST", &format!("{MAPS}?dryRun=All"), map("m")).await;
    assert_eq!(code, 201, "{tried}");
    let (code, made) = server.json("POST", MAPS, map("m")).await;
    assert_eq!((code, &made["data"]["a"]), (201, &"1".into()), "{made}");
    assert!(made["metadata"]["labels"].is_null(), "it is written whole: {made}");
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(made["metadata"][field], kept["metadata"][field], "{made}");
    }
    assert_ne!(made["metadata"]["resourceVersion"], kept["metadata"]["resourceVersion"]);
    let (code, response) = server.json("POST", MAPS, map("m")).await;
    assert_eq!((code, &response["reason"]), (409, &"AlreadyExists".into()));
}

/// Changes a placeholder at the moment it is replaced.
struct Meanwhile {
    registry: Arc<Registry>,
    is_left: AtomicUsize,
    is_filled: bool,
}

#[async_trait::async_trait]
impl Admission for Meanwhile {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let there = self.registry.cache().get("configmaps", "default", attempt.name);
        let (Some(there), true) = (there, attempt.operation == Operation::Create) else { return Ok(()) };
        let count = |left: usize| left.checked_sub(1);
        if self.is_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok() {
            let rows = self.registry.rows();
            let row = rows.all().iter().find(|row| row.plural == "configmaps").unwrap();
            let mut object = there.decode();
            if self.is_filled {
                object.insert("data".to_owned(), json!({"a": "of another"}));
            } else {
                let left = self.is_left.load(Ordering::Relaxed);
                object["metadata"]["labels"] = json!({"left": left.to_string()});
            }
            self.registry.replace(row, &there, &object).await.unwrap();
        }
        Ok(())
    }
}

#[tokio::test]
async fn create_retries_if_the_placeholder_changes_concurrently() {
    for (changes, is_filled, expected) in [
        (3, false, (201, None)),
        (1, true, (409, Some("AlreadyExists"))),
        (99, false, (409, Some("AlreadyExists"))),
    ] {
        let server = Server::of(resources(), |registry| {
            let (registry, is_left) = (registry.clone(), AtomicUsize::new(changes));
            vec![Arc::new(Keeper), Arc::new(Meanwhile { registry, is_left, is_filled })]
        })
        .await;
        let (code, kept) = server.json("POST", MAPS, json!({"metadata": {"name": "m"}})).await;
        assert_eq!(code, 201, "{kept}");
        let (code, response) = server.json("POST", MAPS, map("m")).await;
        assert_eq!((code, response["reason"].as_str()), expected, "{changes}: {response}");
    }
}
