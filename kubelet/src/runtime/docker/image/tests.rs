//! Words about images.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_pull_is_of_one_tag() {
    for (name, pulled) in [
        ("busybox", "busybox:latest"),
        ("localhost:5000/busybox", "localhost:5000/busybox:latest"),
        ("localhost:5000/busybox:1", "localhost:5000/busybox:1"),
        ("busybox@sha256:12", "busybox@sha256:12"),
    ] {
        assert_eq!(with_tag(name), pulled);
    }
}

#[test]
fn credentials_travel_in_the_alphabet_that_dockerd_reads() {
    let body = http_body_util::Either::Left(http_body_util::Full::default());
    let request =
        http::Request::post("/images/create").header("X-Registry-Auth", "ab+/cd==").body(body).unwrap();
    assert_eq!(url_safe_credentials(request).headers()["X-Registry-Auth"], "ab-_cd==");
}
