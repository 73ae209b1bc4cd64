//! Tests of slow checks and of checks that never end.
#![allow(clippy::unwrap_used, reason = "tests")]

use axum::body::{Body, to_bytes};
use http::Request;
use tower::ServiceExt as _;

use super::*;

async fn ready(checks: Checks) -> (u16, String) {
    let request = Request::get("/readyz?verbose").body(Body::empty()).unwrap();
    let response = router(&Arc::new(checks)).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_store_is_waited_for_and_not_for_ever() {
    let slow = Checks::new().ready_when("etcd", || async {
        tokio::time::timeout(LOOK_TIMEOUT / 2, std::future::pending::<()>()).await.unwrap_err();
        Ok(())
    });
    assert_eq!(
        ready(slow).await,
        (200, "[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n".to_owned())
    );
    let hung = Checks::new().ready_when("etcd", std::future::pending);
    let expected = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nreadyz check failed\n";
    assert_eq!(ready(hung).await, (500, expected.to_owned()));
}
