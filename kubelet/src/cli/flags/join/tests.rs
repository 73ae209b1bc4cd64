//! Valid join strings, and errors for invalid ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::super::{RunFlags, read};
use super::join;
use crate::options::Bootstrap;

const HASH: &str = "9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c";

#[test]
fn join_string_contains_servers_and_a_hash() {
    for (line, servers) in [
        (format!("https://192.0.2.10:6443#sha256:{HASH}"), vec!["https://192.0.2.10:6443"]),
        (
            format!(" https://join.example.com/#sha256:{}\n", HASH.to_uppercase()),
            vec!["https://join.example.com"],
        ),
        (format!("https://a:1,https://[::1]:2#sha256:{HASH}"), vec!["https://a:1", "https://[::1]:2"]),
    ] {
        let read = join(&line).unwrap();
        assert_eq!(
            (read.servers, read.pin.as_deref()),
            (servers.iter().map(ToString::to_string).collect(), Some(HASH))
        );
    }
    assert_eq!(join("https://a:1").unwrap().pin, None);
}

#[test]
fn join_string_error_names_the_invalid_part() {
    for (line, expected) in [
        (format!("http://a:1#sha256:{HASH}"), "is not https"),
        (format!("a:1#sha256:{HASH}"), "is not https"),
        (format!("https://a:1/x#sha256:{HASH}"), "has a path"),
        (format!("https://a:1#md5:{HASH}"), "has a pin that is not sha256"),
        (format!("https://a:1#sha256:{}", &HASH[1..]), "a part of it may be missing"),
        (format!("#sha256:{HASH}"), "is not a URL with a host"),
        (String::new(), "is not a URL with a host"),
    ] {
        let why = join(&line).unwrap_err();
        assert!(why.contains(expected) && why.contains("join-string"), "{line}: {why}");
    }
}

#[test]
fn conflicting_flags_are_errors() {
    let line = Some(format!("https://a:1#sha256:{HASH}"));
    let bare = Some("https://a:1".to_owned());
    let file = Some("/etc/boot".to_owned());
    let flags = |bootstrap: &Option<String>, insecure, kubeconfig: &Option<String>| RunFlags {
        bootstrap: bootstrap.clone(),
        bootstrap_insecure_trust_on_first_use: insecure,
        bootstrap_kubeconfig: kubeconfig.clone(),
        ..RunFlags::default()
    };
    for (flags, expected) in [
        (flags(&bare, false, &None), Some("--bootstrap: without #sha256:HASH")),
        (flags(&None, true, &None), Some("--bootstrap-insecure-trust-on-first-use: requires")),
        (flags(&line, false, &file), Some("--bootstrap-kubeconfig: cannot be combined with --bootstrap")),
        (flags(&bare, true, &None), None),
        (flags(&line, true, &None), None),
        (flags(&None, false, &file), None),
    ] {
        let found = read(&flags, None, "n1", None);
        match expected {
            Some(expected) => {
                let mistakes = found.unwrap_err();
                assert!(mistakes.len() == 1 && mistakes[0].starts_with(expected), "{mistakes:?}");
            }
            None => assert!(found.unwrap().options.cluster.unwrap().bootstrap.is_some()),
        }
    }
}

#[test]
fn identity_files_are_below_the_root_dir_by_default() {
    let flags = RunFlags { bootstrap: Some(format!("https://a:1#sha256:{HASH}")), ..RunFlags::default() };
    let options = read(&flags, Some("/x".into()), "n1", None).unwrap().options;
    let cluster = options.cluster.unwrap();
    assert_eq!((options.cert_dir, cluster.kubeconfig), ("/x/pki".into(), "/x/kubeconfig".into()));
    assert!(matches!(cluster.bootstrap, Some(Bootstrap::Join(_))) && cluster.serving);

    let flags = RunFlags {
        kubeconfig: Some("/k".to_owned()),
        cert_dir: Some("/c".to_owned()),
        bootstrap_kubeconfig: Some("/b".to_owned()),
        ..RunFlags::default()
    };
    let options = read(&flags, Some("/x".into()), "n1", None).unwrap().options;
    let cluster = options.cluster.unwrap();
    assert_eq!((options.cert_dir, cluster.kubeconfig), ("/c".into(), "/k".into()));
    assert!(!cluster.serving);
    let file = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true\nserverTLSBootstrap: true\n";
    let flags = RunFlags { config: Some("k.yaml".into()), ..flags };
    let found = read(&flags, None, "n1", Some(file.as_bytes())).unwrap();
    assert!(found.options.cluster.unwrap().serving && found.warnings.is_empty());
    assert!(read(&RunFlags::default(), None, "n1", None).unwrap().options.cluster.is_none());
}

proptest! {
    #[test]
    fn join_string_parser_never_panics(line in any::<String>(), tail in "#sha256:[0-9a-f]{60,66}") {
        let _ = join(&line);
        let _ = join(&format!("https://{line}{tail}"));
    }
}
