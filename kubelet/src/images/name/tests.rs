//! Valid and invalid image references.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn image_names_are_normalized_like_by_the_engine() {
    for (written, whole) in [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1", "docker.io/library/busybox:1"),
        ("coracle/busybox:1", "docker.io/coracle/busybox:1"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("127.0.0.1:5000/a/b/c:v1.2-rc_3", "127.0.0.1:5000/a/b/c:v1.2-rc_3"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("registry.example.com/my__app/x-y---z", "registry.example.com/my__app/x-y---z:latest"),
        ("Registry/app", "Registry/app:latest"),
    ] {
        assert_eq!(ImageName::parse(written).unwrap().to_pull().to_string(), whole, "{written}");
    }
    let pinned = format!("quay.io/x/y@sha256:{HEX}");
    assert_eq!(ImageName::parse(&pinned).unwrap().to_pull().to_string(), pinned, "a digest needs no tag");
    let both = format!("quay.io/x/y:1@sha256:{HEX}");
    assert_eq!(ImageName::parse(&both).unwrap().to_string(), both);
}

#[test]
fn invalid_image_name_error_shows_a_valid_name() {
    for (wrong, expected_words) in [
        ("", "it is empty"),
        ("busy box", "' '"),
        ("https://quay.io/app", "write quay.io/app"),
        ("BusyBox", "write busybox"),
        ("quay.io/App", "write app"),
        ("busybox:", "is not a tag"),
        ("busybox:.1", "is not a tag"),
        ("busybox@sha256:12", "64 digits"),
        ("busybox@md5:12", "is not a digest"),
        ("a//b", "nothing between two slashes"),
        ("/a", "nothing between two slashes"),
        ("a/", "nothing between two slashes"),
        ("a..b", "\"a..b\""),
        ("a___b", "\"a___b\""),
        ("-a", "\"-a\""),
        ("-registry.com/a", "not the host name"),
        ("registry.com:http/a", "no port number"),
        (HEX, "looks like an id"),
    ] {
        let error = ImageName::parse(wrong).unwrap_err().to_string();
        assert!(error.contains(expected_words), "{wrong}: {error}");
    }
    assert!(ImageName::parse(&"a/".repeat(200)).is_err());
    assert!(ImageName::parse(&format!("busybox:{}", "a".repeat(129))).is_err());
}

proptest! {
    #[test]
    fn normalized_image_name_round_trips(written in "([a-z]{1,4}(\\.[a-z]{1,3})?(:[0-9]{1,3})?/)?[a-z0-9._-]{1,9}(/[a-z0-9_]{1,5})?(:[a-zA-Z0-9_.-]{1,8})?") {
        if let Ok(name) = ImageName::parse(&written) {
            prop_assert_eq!(ImageName::parse(&name.to_string()), Ok(name));
        }
    }

    #[test]
    fn parser_of_image_names_never_panics(written in "\\PC{0,40}") {
        let _ = ImageName::parse(&written);
    }
}
