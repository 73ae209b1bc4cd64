//! Requests of a reflector after the server has rejected a watch.

use client::{Kind, Scope};
use tokio::sync::watch;

use super::fake::Fake;
use super::*;
use crate::cluster::reflector::reflect;

#[tokio::test]
async fn expired_resource_version_alone_causes_a_new_list() {
    let asked_again = async |code: u16, answer: Option<Value>| {
        let (fake, api) = Fake::start().await;
        fake.says(200, Some(json!({"metadata": {"resourceVersion": "7"}, "items": []})));
        fake.says(code, answer);
        let (access, apis) = watch::channel(Some(api));
        let following = tokio::spawn(async move {
            reflect(apis, Kind::NODE, &Scope::default(), &mut |_: Delta<PartialNode>| {}, |_| {}).await
        });
        let (mut asked, mut look) = (Vec::new(), tokio::time::interval(Duration::from_millis(10)));
        while asked.len() < 3 {
            look.tick().await;
            asked.extend(fake.asked());
        }
        following.abort();
        drop(access);
        assert!(asked[1].contains("watch=true") && asked[1].contains("resourceVersion=7"), "{asked:?}");
        assert!(!asked[0].contains("watch"), "{asked:?}");
        asked.swap_remove(2)
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
    let asked = all.map(|(code, answer, is_listed)| {
        let again = asked_again(code, answer);
        async move { (code, is_listed, again.await) }
    });
    for (code, is_listed, again) in futures_util::future::join_all(asked).await {
        let expected = if is_listed { "?limit=" } else { "?watch=true" };
        assert!(again.contains(expected), "{code}: {again}");
        assert_eq!(again.contains("resourceVersion=7"), !is_listed, "{code}: {again}");
    }
}

#[tokio::test]
async fn a_page_that_is_too_large_is_read_again_with_half_as_many_objects() {
    let (fake, api) = Fake::start().await;
    let large = json!({"metadata": {"resourceVersion": "7"}, "items": [{"x": "y".repeat(17 << 20)}]});
    fake.says(200, Some(large.clone()));
    fake.says(200, Some(large));
    fake.says(200, Some(json!({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": []})));
    fake.says(200, Some(json!({"metadata": {"resourceVersion": "7"}, "items": []})));
    let (access, apis) = watch::channel(Some(api));
    let (listed, mut lists) = tokio::sync::mpsc::unbounded_channel();
    let following = tokio::spawn(async move {
        let mut hear = |told: Delta<PartialNode>| {
            if let Delta::Replaced(_, version) = told {
                listed.send(version).unwrap();
            }
        };
        reflect(apis, Kind::NODE, &Scope::default(), &mut hear, |_| {}).await
    });
    assert_eq!(lists.recv().await.unwrap(), "7");
    following.abort();
    drop(access);
    let limits: Vec<String> = fake
        .asked()
        .iter()
        .filter_map(|line| line.split_once("?limit=").map(|(_, limit)| limit.to_owned()))
        .collect();
    assert_eq!(limits, ["100", "50", "25", "25&continue=next"]);
}
