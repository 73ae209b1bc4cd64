//! What becomes of what admission puts into an object.

use super::*;

/// Limits every container of a pod by what a client might write: an amount as a number.
struct Limiter;

#[async_trait::async_trait]
impl Admission for Limiter {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let containers = attempt.object["spec"]["containers"].as_array().map_or(0, Vec::len);
        for at in 0..containers {
            attempt.object["spec"]["containers"][at]["resources"] = json!({"limits": {"cpu": 0.5}});
        }
        Ok(())
    }
}

/// Puts what is of no use into what is made.
struct Vandal;

#[async_trait::async_trait]
impl Admission for Vandal {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        attempt.object.insert("spec".to_owned(), json!({"replicas": "many"}));
        Ok(())
    }
}

#[tokio::test]
async fn it_is_stored_like_the_rest_with_defaults_of_its_own() {
    let server = Server::of(resources(), |_| vec![Arc::new(Limiter)]).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}});
    let (code, made) = server.json("POST", PODS, pod).await;
    assert_eq!(code, 201, "{made}");
    let expected = json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}});
    assert_eq!(made["spec"]["containers"][0]["resources"], expected);
}

#[tokio::test]
async fn it_is_refused_like_the_rest() {
    let server = Server::of(resources(), |_| vec![Arc::new(Vandal)]).await;
    let (code, refused) =
        server.json("POST", DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": {}})).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["field"]),
        (422, &json!("spec.replicas")),
        "{refused}"
    );
}
