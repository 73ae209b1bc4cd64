//! Times of token requests, with a test clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::SignedDuration;

use super::*;

fn pod(uid: &str, sources: Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": format!("pod-{uid}"), "namespace": "shop", "uid": uid},
        "spec": {
            "serviceAccountName": "robot", "containers": [],
            "volumes": [{"name": "v", "projected": {"sources": sources}}, {"name": "w", "emptyDir": {}}],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn token(audience: Value, seconds: Value) -> Value {
    json!({"serviceAccountToken": {"audience": audience, "expirationSeconds": seconds, "path": "token"}})
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// A response from a server with a clock that is wrong by years.
fn answer(text: &str, seconds: i64) -> Value {
    let expires = "2020-01-01T00:00:00Z";
    json!({"spec": {"expirationSeconds": seconds}, "status": {"token": text, "expirationTimestamp": expires}})
}

fn texts(tokens: &TokenCache) -> String {
    let text = |held: &SourceObject| match held {
        SourceObject::Token(token) => token.status.as_ref().unwrap().token.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    tokens.held().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn token_request_follows_the_projection_and_is_bound_to_the_pod() {
    let mut tokens = TokenCache::default();
    let map = json!({"configMap": {"name": "m"}});
    let pod = pod("u1", json!([token(Value::Null, Value::Null), token("vault".into(), 600.into()), map]));
    assert!(tokens.set_pods([&pod].into_iter()) && !tokens.set_pods([&pod].into_iter()));
    assert!(!tokens.has_answered(&PodUid::new("u1")) && tokens.has_answered(&PodUid::new("u2")));
    let first = tokens.next(start()).unwrap();
    assert_eq!(first.path, "/api/v1/namespaces/shop/serviceaccounts/robot/token");
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "pod-u1", "uid": "u1"});
    assert_eq!(
        first.body["spec"],
        json!({"audiences": [], "expirationSeconds": 3600, "boundObjectRef": bound})
    );
    tokens.on_issued(&first, &answer("a", 3600), start(), 0.0).unwrap();
    let second = tokens.next(start()).unwrap();
    assert_eq!(
        second.body["spec"],
        json!({"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": bound})
    );
    tokens.on_issued(&second, &answer("b", 600), start(), 0.0).unwrap();
    assert!(tokens.has_answered(&PodUid::new("u1")));
    assert_eq!((texts(&tokens), tokens.next(start())), ("a b".to_owned(), Err(Some(after(480)))));
    // Two volumes with equal token sources share one request.
    assert_eq!(requests(&pod).len(), 2);
    tokens.set_pods([].into_iter());
    assert_eq!((texts(&tokens), tokens.next(start())), (String::new(), Err(None)));
}

#[test]
fn token_is_renewed_at_80_percent_of_its_lifetime() {
    let day = 24 * 60 * 60;
    // Token lifetime in seconds, random share, seconds until the next request.
    for (life, share, due) in [
        (600, 0.0, 480),
        (600, 1.0, 470),
        (3607, 0.0, 2885),
        (30 * day, 0.0, day),
        (0, 1.0, 60),
        (-5, 0.5, 60),
    ] {
        let mut tokens = TokenCache::default();
        tokens.set_pods([&pod("u1", json!([token(Value::Null, 600.into())]))].into_iter());
        let question = tokens.next(start()).unwrap();
        tokens.on_issued(&question, &answer("a", life), start(), share).unwrap();
        let at = tokens.next(start()).unwrap_err().unwrap();
        assert_eq!(at.as_second(), after(due).as_second(), "{life} {share}");
    }
    // If the response has no lifetime, the requested one is assumed.
    let mut tokens = TokenCache::default();
    tokens.set_pods([&pod("u1", json!([token(Value::Null, 600.into())]))].into_iter());
    let question = tokens.next(start()).unwrap();
    tokens.on_issued(&question, &json!({"status": {"token": "a"}}), start(), 0.0).unwrap();
    assert_eq!(tokens.next(start()), Err(Some(after(480))));
    // A token is used until its replacement arrives, even after it has expired.
    let mut tokens = TokenCache::default();
    tokens.set_pods([&pod("u1", json!([token(Value::Null, 600.into())]))].into_iter());
    let question = tokens.next(start()).unwrap();
    tokens.on_issued(&question, &answer("a", 600), start(), 0.0).unwrap();
    assert_eq!(tokens.next(after(480)).unwrap(), question);
    assert!(tokens.refused(&question.key, "not now", after(480), 1.0).is_some());
    assert_eq!((texts(&tokens), tokens.next(after(480))), ("a".to_owned(), Err(Some(after(481)))));
    assert!(tokens.next(after(9999)).is_ok() && texts(&tokens) == "a");
    tokens.on_issued(&question, &answer("b", 600), after(600), 0.0).unwrap();
    assert_eq!(texts(&tokens), "b");
}

#[test]
fn token_issued_before_a_clock_step_is_requested_again_once() {
    let mut tokens = TokenCache::default();
    tokens.set_pods([&pod("u1", json!([token(Value::Null, 600.into())]))].into_iter());
    let question = tokens.next(start()).unwrap();
    tokens.on_issued(&question, &answer("a", 600), after(9000), 0.0).unwrap();
    assert_eq!(tokens.next(after(9000)), Err(Some(after(9480))));
    assert_eq!(tokens.next(start()).unwrap(), question);
    tokens.refused(&question.key, "not now", start(), 1.0);
    assert_eq!(tokens.next(start()), Err(Some(after(1))), "a refusal is no reason to ask at once");
    tokens.on_issued(&question, &answer("b", 600), after(1), 0.0).unwrap();
    assert_eq!((texts(&tokens), tokens.next(after(1))), ("b".to_owned(), Err(Some(after(481)))));
}

#[test]
fn a_rejected_token_request_is_retried_with_backoff_and_reported_once() {
    let mut tokens = TokenCache::default();
    tokens.set_pods([&pod("u1", json!([token(Value::Null, Value::Null)]))].into_iter());
    let question = tokens.next(start()).unwrap();
    let (mut now, mut pauses) = (start(), Vec::new());
    for round in 0..9 {
        let retry = tokens.refused(&question.key, "no such account", now, 1.0);
        assert_eq!(retry.is_some(), round == 0);
        let next = tokens.next(now).unwrap_err().unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    assert!(tokens.has_answered(&PodUid::new("u1")), "the pod starts and reports what is missing");
    assert!(tokens.refused(&question.key, "another reason", now, 1.0).is_some());
    // A response without a token is an error.
    assert!(tokens.on_issued(&question, &json!({}), now, 0.0).is_err());
}

#[test]
fn restarted_kubelet_uses_the_stored_tokens() {
    let (one, other) = (pod("u1", json!([token(Value::Null, 600.into())])), pod("u2", json!([])));
    let mut tokens = TokenCache::default();
    tokens.set_pods([&one, &other].into_iter());
    let question = tokens.next(start()).unwrap();
    tokens.on_issued(&question, &answer("a", 600), start(), 0.0).unwrap();
    let held = tokens.held().map(|held| held.json().unwrap()).next().unwrap();
    let read: Arc<TokenRequest> = Arc::new(serde_json::from_value(held).unwrap());
    let mut tokens = TokenCache::default();
    tokens.restore([read].into_iter());
    tokens.set_pods([&one].into_iter());
    assert_eq!((texts(&tokens), tokens.next(after(1))), ("a".to_owned(), Err(Some(after(480)))));
    assert!(tokens.has_answered(&PodUid::new("u1")));
}
