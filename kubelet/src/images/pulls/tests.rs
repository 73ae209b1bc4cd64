//! Shared and limited pulls, with several credentials.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::runtime::fake::Fake;

fn user(name: &str, password: &str) -> Credentials {
    Credentials { username: name.to_owned(), password: password.to_owned(), ..Credentials::default() }
}

fn pulls(at_once: usize) -> (Fake, Pulls) {
    let fake = Fake::new("n");
    (fake.clone(), Pulls::new(Arc::new(fake), at_once))
}

async fn pull(pulls: &Pulls, name: &str, as_users: &[Credentials]) -> Result<(), Error> {
    pulls.pull(name, as_users.to_vec(), &|_| {}).await
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_one_image_pull() {
    let (fake, pulls) = pulls(5);
    fake.publish("quay.io/a:1", None);
    let (one, two) = tokio::join!(pull(&pulls, "quay.io/a:1", &[]), pull(&pulls, "quay.io/a:1", &[]));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(fake.pulls(), ["quay.io/a:1"]);
    pull(&pulls, "quay.io/a:1", &[]).await.unwrap();
    assert_eq!(fake.pulls().len(), 2, "a later one is a new pull");
}

#[tokio::test(start_paused = true)]
async fn a_pull_does_not_use_the_credentials_of_another_pod() {
    let (fake, pulls) = pulls(5);
    fake.publish("quay.io/a:1", Some(("alice", "sesame")));
    let (alice, bob) = ([user("alice", "sesame")], [user("bob", "x")]);
    let (alice, bob) = tokio::join!(pull(&pulls, "quay.io/a:1", &alice), pull(&pulls, "quay.io/a:1", &bob));
    alice.unwrap();
    assert!(bob.unwrap_err().to_string().contains("unauthorized"));
}

#[tokio::test(start_paused = true)]
async fn pull_tries_each_credential_and_then_none() {
    let (fake, pulls) = pulls(5);
    fake.publish("quay.io/a:1", Some(("alice", "sesame")));
    fake.publish("quay.io/open:1", None);
    let both = [user("bob", "x"), user("alice", "sesame")];
    pull(&pulls, "quay.io/a:1", &both).await.unwrap();
    pull(&pulls, "quay.io/open:1", &[]).await.unwrap();
    let error = pull(&pulls, "quay.io/a:1", &both[..1]).await.unwrap_err().to_string();
    assert!(
        error.contains("authentication required"),
        "the error of the credential, not of the anonymous pull: {error}"
    );
    assert_eq!(
        fake.pulls(),
        ["quay.io/a:1 as bob", "quay.io/a:1 as alice", "quay.io/open:1", "quay.io/a:1 as bob", "quay.io/a:1"]
    );
}

#[tokio::test(start_paused = true)]
async fn unreachable_registry_is_tried_once() {
    let (fake, pulls) = pulls(5);
    fake.set_up(false);
    assert!(matches!(pull(&pulls, "quay.io/a:1", &[user("a", "b")]).await, Err(Error::Unreachable { .. })));
    assert_eq!(fake.calls(), ["pull quay.io/a:1"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_pulls_are_limited() {
    let (fake, pulls) = pulls(2);
    let names = ["quay.io/a:1", "quay.io/b:1", "quay.io/c:1"];
    for name in names {
        fake.publish(name, None);
    }
    let begun = tokio::time::Instant::now();
    let one = |index: usize| pull(&pulls, names[index], &[]);
    let (a, b, c) = tokio::join!(one(0), one(1), one(2));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert!(
        begun.elapsed() >= std::time::Duration::from_millis(40),
        "two after another: {:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_pull_without_waiters_is_cancelled_and_frees_its_slot() {
    let (fake, pulls) = pulls(1);
    fake.publish("quay.io/a:1", None);
    fake.publish("quay.io/b:1", None);
    let impatient =
        tokio::time::timeout(std::time::Duration::from_millis(5), pull(&pulls, "quay.io/a:1", &[])).await;
    assert!(impatient.is_err());
    pull(&pulls, "quay.io/b:1", &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pull_progress_is_reported() {
    let (fake, pulls) = pulls(1);
    fake.publish("quay.io/a:1", None);
    let reports = Mutex::new(Vec::new());
    pulls
        .pull("quay.io/a:1", Vec::new(), &|progress| reports.lock().unwrap().push(progress.to_string()))
        .await
        .unwrap();
    let reports = reports.into_inner().unwrap();
    assert_eq!(reports[0], "0 of 0 MiB, 0 of 0 layers", "at once");
    assert!(reports.contains(&"1 of 1 MiB, 0 of 1 layers".to_owned()), "{reports:?}");
}
