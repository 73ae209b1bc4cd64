//! Requests of a reflector after the server has rejected a watch.

use client::{Kind, Scope};
use tokio::sync::watch;

use super::fake::Fake;
use super::*;
use crate::cluster::reflector::reflect;

#[tokio::test]
async fn expired_resource_version_alone_causes_a_new_list() {
    let requests_after = async |code: u16, answer: Option<Value>| {
        let (fake, api) = Fake::start().await;
        fake.respond(200, Some(json!({"metadata": {"resourceVersion": "7"}, "items": []})));
        fake.respond(code, answer);
        let (access, apis) = watch::channel(Some(api));
        let following = tokio::spawn(async move {
            reflect(apis, Kind::NODE, &Scope::default(), &mut |_: Delta<PartialNode>| {}, |_| {}).await
        });
        let (mut sent, mut look) = (Vec::new(), tokio::time::interval(Duration::from_millis(10)));
        while sent.len() < 3 {
            look.tick().await;
            sent.extend(fake.requests());
        }
        following.abort();
        drop(access);
        assert!(sent[1].contains("watch=true") && sent[1].contains("resourceVersion=7"), "{sent:?}");
        assert!(!sent[0].contains("watch"), "{sent:?}");
        sent.swap_remove(2)
    };
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let ahead =
        json!({"message": "Too large resource version: 7, current: 5", "details": {"causes": [cause]}});
    let all = [
        (429, None, false),
        (500, None, false),
        (503, None, false),
        (504, None, false),
        (400, None, true),
        (410, None, true),
        (504, Some(ahead), true),
    ];
    let sent = all.map(|(code, answer, is_listed)| {
        let again = requests_after(code, answer);
        async move { (code, is_listed, again.await) }
    });
    for (code, is_listed, again) in futures_util::future::join_all(sent).await {
        let expected = if is_listed { "?limit=" } else { "?watch=true" };
        assert!(again.contains(expected), "{code}: {again}");
        assert_eq!(again.contains("resourceVersion=7"), !is_listed, "{code}: {again}");
    }
}

#[tokio::test]
async fn a_page_that_is_too_large_is_read_again_with_half_as_many_objects() {
    let (fake, api) = Fake::start().await;
    let large = json!({"metadata": {"resourceVersion": "7"}, "items": [{"x": "y".repeat(17 << 20)}]});
    fake.respond(200, Some(large.clone()));
    fake.respond(200, Some(large));
    fake.respond(200, Some(json!({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": []})));
    fake.respond(200, Some(json!({"metadata": {"resourceVersion": "7"}, "items": []})));
    let (access, apis) = watch::channel(Some(api));
    let (listed, mut lists) = tokio::sync::mpsc::unbounded_channel();
    let following = tokio::spawn(async move {
        let mut apply = |delta: Delta<PartialNode>| {
            if let Delta::Replaced(_, version) = delta {
                listed.send(version).unwrap();
            }
        };
        reflect(apis, Kind::NODE, &Scope::default(), &mut apply, |_| {}).await
    });
    assert_eq!(lists.recv().await.unwrap(), "7");
    following.abort();
    drop(access);
    let limits: Vec<String> = fake
        .requests()
        .iter()
        .filter_map(|line| line.split_once("?limit=").map(|(_, limit)| limit.to_owned()))
        .collect();
    assert_eq!(limits, ["100", "50", "25", "25&continue=next"]);
}
