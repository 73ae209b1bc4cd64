//! What a server is asked after it did not let something be watched.

use tokio::sync::watch;

use super::fake::Fake;
use super::*;
use crate::cluster::NODES;
use crate::cluster::follow::follow;

#[tokio::test]
async fn only_a_server_that_does_not_know_the_version_is_asked_for_everything_again() {
    let asked_again = async |code: u16, answer: Option<Value>| {
        let (fake, api) = Fake::start().await;
        fake.says(200, Some(json!({"metadata": {"resourceVersion": "7"}, "items": []})));
        fake.says(code, answer);
        let (way, apis) = watch::channel(Some(api));
        let following =
            tokio::spawn(async move { follow(apis, NODES, "", &mut |_: Told<Line>| {}, |_| {}).await });
        let (mut asked, mut look) = (Vec::new(), tokio::time::interval(Duration::from_millis(10)));
        while asked.len() < 3 {
            look.tick().await;
            asked.extend(fake.asked());
        }
        following.abort();
        drop(way);
        assert!(asked[1].contains("watch=true") && asked[1].contains("resourceVersion=7"), "{asked:?}");
        assert!(!asked[0].contains("watch"), "{asked:?}");
        asked.swap_remove(2)
    };
    let ahead = json!({"message": "Too large resource version: 7, current: 5"});
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
