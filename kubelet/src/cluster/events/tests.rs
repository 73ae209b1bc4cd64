//! Requests for an event, and how the kubelet reacts to the response.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::cluster::tests::fake::{Fake, unreachable_api};

fn event(count: u32) -> Event {
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "shop", "creationTimestamp": "t", "resourceVersion": "7"},
        "involvedObject": {"kind": "Pod", "name": "web", "uid": "local"}, "reason": "Pulled", "message": "m",
        "lastTimestamp": "later", "count": count,
    });
    event.as_object().unwrap().clone()
}

fn poster(api: Arc<Api>) -> EventPoster {
    let known_uid: KnownUid = Box::new(|uid| (uid == "local").then(|| "hash".to_owned()));
    EventPoster { events: Arc::default(), apis: watch::channel(Some(api)).1, known_uid }
}

const POST: &str = "POST /api/v1/namespaces/shop/events";
const PATCH: &str = "PATCH /api/v1/namespaces/shop/events/web.1";

#[tokio::test]
async fn event_is_created_once_and_then_patched_with_its_count() {
    let (fake, api) = Fake::start().await;
    let poster = poster(api.clone());
    // The count of the event, the status codes of the responses, and the expected requests.
    for (count, answers, expected_requests) in [
        (1, vec![], vec![POST]),
        (2, vec![], vec![PATCH]),
        // The event has expired on the server.
        (3, vec![404], vec![PATCH, POST]),
        // An earlier kubelet process created the event, or the response got lost.
        (1, vec![409], vec![POST, PATCH]),
    ] {
        answers.iter().for_each(|code| fake.respond(*code, None));
        poster.post(&api, &event(count)).await.unwrap();
        assert_eq!(fake.requests(), expected_requests, "{count} {answers:?}");
    }
    poster.post(&api, &event(1)).await.unwrap();
    let made = fake.requests_with_bodies().remove(0).1;
    assert_eq!(made["metadata"], json!({"name": "web.1", "namespace": "shop"}));
    assert_eq!(made["involvedObject"]["uid"], "hash", "clients look for events of an image by that");
    poster.post(&api, &event(4)).await.unwrap();
    let counted = fake.requests_with_bodies().remove(0).1;
    assert_eq!(counted, json!({"count": 4, "lastTimestamp": "later", "message": "m"}));
}

#[tokio::test]
async fn poster_drops_only_permanently_rejected_events() {
    let (fake, api) = Fake::start().await;
    let poster = poster(api.clone());
    for (code, is_let_go) in
        [(403, true), (404, true), (422, true), (401, false), (429, false), (500, false), (503, false)]
    {
        fake.respond(code, None);
        let error = poster.post(&api, &event(1)).await.unwrap_err();
        assert_eq!(is_request_error(&error), is_let_go, "{code}");
    }
    assert!(!is_request_error(&poster.post(&*unreachable_api().await, &event(1)).await.unwrap_err()));
}

#[tokio::test]
async fn failing_event_does_not_block_others() {
    let (fake, api) = Fake::start().await;
    let (access, apis) = watch::channel(Some(api.clone()));
    let poster = EventPoster { apis, ..poster(api) };
    let events = poster.events.clone();
    let mut other = event(1);
    other["metadata"]["name"] = "web.2".into();
    events.put(event(1));
    events.put(other.clone());
    fake.respond(500, None);
    let telling = tokio::spawn(poster.run());
    let mut look = tokio::time::interval(Duration::from_millis(10));
    while events.first().is_some() {
        look.tick().await;
    }
    let names: Vec<Value> =
        fake.requests_with_bodies().into_iter().map(|(_, sent)| sent["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["web.1", "web.2", "web.1"]);
    telling.abort();
    drop(access);
}
