//! What a server is sent of an event, and what becomes of it by the answer.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::cluster::tests::fake::{Fake, nobody};

fn event(count: u32) -> Event {
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "shop", "creationTimestamp": "t", "resourceVersion": "7"},
        "involvedObject": {"kind": "Pod", "name": "web", "uid": "local"}, "reason": "Pulled", "message": "m",
        "lastTimestamp": "later", "count": count,
    });
    event.as_object().unwrap().clone()
}

fn poster(api: Arc<Api>) -> Poster {
    let known_as: KnownAs = Box::new(|uid| (uid == "local").then(|| "hash".to_owned()));
    Poster { events: Arc::default(), apis: watch::channel(Some(api)).1, known_as }
}

const POST: &str = "POST /api/v1/namespaces/shop/events";
const PATCH: &str = "PATCH /api/v1/namespaces/shop/events/web.1";

#[tokio::test]
async fn an_event_is_made_once_and_counted_then() {
    let (fake, api) = Fake::start().await;
    let poster = poster(api.clone());
    // How often it happened, what is answered, what is asked.
    for (count, answers, asked) in [
        (1, vec![], vec![POST]),
        (2, vec![], vec![PATCH]),
        // It has expired there.
        (3, vec![404], vec![PATCH, POST]),
        // It was told by an earlier kubelet, or the answer got lost.
        (1, vec![409], vec![POST, PATCH]),
    ] {
        answers.iter().for_each(|code| fake.says(*code, None));
        poster.tell(&api, &event(count)).await.unwrap();
        assert_eq!(fake.asked(), asked, "{count} {answers:?}");
    }
    poster.tell(&api, &event(1)).await.unwrap();
    let made = fake.asked_with().remove(0).1;
    assert_eq!(made["metadata"], json!({"name": "web.1", "namespace": "shop"}));
    assert_eq!(made["involvedObject"]["uid"], "hash", "clients look for events of an image by that");
    poster.tell(&api, &event(4)).await.unwrap();
    let counted = fake.asked_with().remove(0).1;
    assert_eq!(counted, json!({"count": 4, "lastTimestamp": "later", "message": "m"}));
}

#[tokio::test]
async fn what_is_refused_for_good_is_let_go_and_nothing_else() {
    let (fake, api) = Fake::start().await;
    let poster = poster(api.clone());
    for (code, is_let_go) in
        [(403, true), (404, true), (422, true), (401, false), (429, false), (500, false), (503, false)]
    {
        fake.says(code, None);
        let trouble = poster.tell(&api, &event(1)).await.unwrap_err();
        assert_eq!(is_of_its_own(&trouble), is_let_go, "{code}");
    }
    assert!(!is_of_its_own(&poster.tell(&*nobody().await, &event(1)).await.unwrap_err()));
}

#[tokio::test]
async fn one_that_the_server_fails_at_keeps_no_other_waiting() {
    let (fake, api) = Fake::start().await;
    let (way, apis) = watch::channel(Some(api.clone()));
    let poster = Poster { apis, ..poster(api) };
    let events = poster.events.clone();
    let mut other = event(1);
    other["metadata"]["name"] = "web.2".into();
    events.put(event(1));
    events.put(other.clone());
    fake.says(500, None);
    let telling = tokio::spawn(poster.run());
    let mut look = tokio::time::interval(Duration::from_millis(10));
    while events.first().is_some() {
        look.tick().await;
    }
    let names: Vec<Value> =
        fake.asked_with().into_iter().map(|(_, sent)| sent["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["web.1", "web.2", "web.1"]);
    telling.abort();
    drop(way);
}
