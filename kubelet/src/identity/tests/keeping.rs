//! Certificate and kubeconfig files, interrupted and damaged, and reported remedies.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use apiserver::status::RejectionCause;
use jiff::{SignedDuration, Timestamp};
use rcgen::PublicKeyData as _;

use super::super::access::{ClusterAccess, Credentials};
use super::super::csr::Kind;
use super::super::discovery::Found;
use super::super::error::ApiError;
use super::super::event_reporter::EventReporter;
use super::super::files::{Files, known};
use super::super::kubeconfig;
use super::pair;
use crate::report::Outbox;

fn files(folder: &tempfile::TempDir) -> Files {
    Files { cert_dir: folder.path().join("a/pki"), kubeconfig: folder.path().join("etc/kubeconfig") }
}

#[test]
fn pending_private_key_is_stored_until_its_certificate_is_issued() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let first = files.key(Kind::Client, None).unwrap();
    let again = files.key(Kind::Client, None).unwrap();
    assert_eq!(first.serialize_pem(), again.serialize_pem());
    let path = folder.path().join("a/pki/kubelet-client.key.tmp");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(files.key(Kind::Serving, None).unwrap().serialize_pem(), first.serialize_pem());
    // The kubelet was killed after it had written the certificate, before it removed the pending key.
    let spent = first.subject_public_key_info();
    assert_ne!(files.key(Kind::Client, Some(&spent)).unwrap().serialize_pem(), first.serialize_pem());
    fs::write(&path, "damaged").unwrap();
    files.key(Kind::Client, None).unwrap();

    let (chain, key) = pair("kubelet:n1");
    files.keep(Kind::Client, chain.trim_end().as_bytes(), &key).unwrap();
    assert!(!path.exists());
    let current = files.current(Kind::Client);
    assert!(current.ends_with("a/pki/kubelet-client-current.pem"));
    assert_eq!(fs::metadata(&current).unwrap().permissions().mode() & 0o777, 0o600);
    let held = files.certificate(Kind::Client).unwrap().unwrap();
    assert!(held.since > Timestamp::now() - SignedDuration::from_mins(1));
    // An invalid certificate counts as missing, so a new one is requested.
    fs::write(&current, "damaged").unwrap();
    assert!(files.certificate(Kind::Client).unwrap().is_none());
}

#[test]
fn kubeconfig_is_written_once_and_refers_to_the_files_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    assert!(files.known().unwrap().is_none());
    let (chain, key) = pair("kubelet:n1");
    let wanted = ClusterAccess {
        servers: vec!["https://a:1".to_owned()],
        authority: chain.as_bytes().to_vec(),
        retiring: Vec::new(),
        former: vec!["00".to_owned()],
        credentials: Credentials::Anonymous,
    };
    files.write_kubeconfig(&wanted).unwrap();
    // The kubeconfig refers to a certificate that does not exist yet.
    assert!(matches!(files.known().unwrap().unwrap().credentials, Credentials::Anonymous));
    files.keep(Kind::Client, chain.as_bytes(), &key).unwrap();
    let found = files.known().unwrap().unwrap();
    assert!(
        matches!(&found.credentials, Credentials::Certificate(own) if own.facts.common_name == "kubelet:n1")
    );
    let same = found.clone().with_credentials(Credentials::Anonymous);
    assert!(same.is_same(&wanted) && same.former == wanted.former, "{found:?}");
    let written = || fs::metadata(&files.kubeconfig).unwrap().modified().unwrap();
    let before = written();
    files.write_kubeconfig(&wanted).unwrap();
    assert_eq!(written(), before);
    let more = ClusterAccess { servers: vec!["https://b:1".to_owned()], ..wanted };
    assert!(files.rewrite_kubeconfig(&more).unwrap());
    assert_eq!(files.known().unwrap().unwrap().servers, more.servers);
    // A damaged certificate does not invalidate the kubeconfig: the server stays known, and a new certificate is requested.
    fs::write(files.current(Kind::Client), "damaged").unwrap();
    assert!(matches!(files.known().unwrap().unwrap().credentials, Credentials::Anonymous));
    assert!(
        known(&files.kubeconfig).unwrap_err().to_string().contains("client certificate that contains no")
    );
    // The remedy for an unregistered node depends on the certificate that its kubeconfig names.
    let remedy = |shows_others: bool| files.remedy_of_unregistered(shows_others);
    assert!(!files.shows_others().unwrap());
    assert!(
        remedy(false).contains("machine remove ")
            && remedy(false).contains("etc/kubeconfig and the flags may stay")
    );
    // A kubeconfig that a user wrote is never changed.
    let others = kubeconfig::text(&more, Path::new("/elsewhere.pem"));
    fs::write(&files.kubeconfig, &others).unwrap();
    assert!(files.shows_others().unwrap());
    assert!(remedy(true).contains("replace the certificate in ") && !remedy(true).contains("may stay"));
    assert!(!files.rewrite_kubeconfig(&more).unwrap());
    assert_eq!(fs::read_to_string(&files.kubeconfig).unwrap(), others);
    fs::write(&files.kubeconfig, "a: [").unwrap();
    assert!(known(&files.kubeconfig).unwrap_err().to_string().contains("etc/kubeconfig cannot be parsed"));
}

#[test]
fn every_api_error_names_a_remedy() {
    let server = "https://a:1".to_owned();
    let refused = |code, credentials: &Credentials| {
        let cause = (code == 429).then_some(RejectionCause::TooManyPendingRequests);
        ApiError::Rejected {
            server: server.clone(),
            code,
            message: "no".to_owned(),
            cause,
            remedy: credentials.remedy(code, cause),
            retry_after: None,
        }
    };
    let token = Credentials::Token("abcdef.0123456789abcdef".to_owned());
    for (error, expected) in [
        (refused(401, &token), "kubectl -n kube-system patch secret bootstrap-token-abcdef"),
        (refused(401, &Credentials::Anonymous), "--bootstrap-kubeconfig"),
        (refused(403, &Credentials::Anonymous), "--bootstrap-kubeconfig"),
        (refused(429, &Credentials::Anonymous), "kubectl get csr"),
        (refused(500, &token), "answered 500: no"),
        (ApiError::NameMismatch { server: server.clone() }, "--tls-san"),
        (
            ApiError::OtherCluster { server: server.clone(), forget: String::new() }.with_files("X and Y"),
            "after X and Y were removed",
        ),
        (
            ApiError::ClockSkew {
                server: server.clone(),
                why: "has expired",
                own: Timestamp::UNIX_EPOCH,
                theirs: None,
            }
            .with_clock(Timestamp::from_second(86_400).ok()),
            "which says 1970-01-01T00:00:00Z, while the server's says 1970-01-02T00:00:00Z: set the clock",
        ),
    ] {
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains("0123456789abcdef"), "{text}");
    }
}

#[test]
fn remedy_depends_on_code_and_cause_and_not_on_the_message() {
    use RejectionCause::{
        BootstrapTokenExpired, BootstrapTokenUnknown, NodeKeyNotRegistered, TooManyPendingRequests,
    };
    let token = Credentials::Token("abcdef.0123456789abcdef".to_owned());
    let error = |code, causes: &[RejectionCause]| {
        let refused = client::Error::Refused {
            server: "https://a:1".into(),
            code,
            reason: String::new(),
            message: "kubectl, undecided, the key of this certificate is not registered for node \"n\""
                .to_owned(),
            names_object: false,
            causes: causes.iter().map(|cause| cause.as_str().to_owned()).collect(),
            retry_after: None,
        };
        ApiError::from_client(&refused, &token, Timestamp::UNIX_EPOCH)
    };
    for (code, cause, expected, is_unregistered) in [
        (401, None, "; extend the token: kubectl", false),
        (401, Some(BootstrapTokenExpired), "; or put another token into the kubeconfig", false),
        (401, Some(BootstrapTokenUnknown), "; or put another token into the kubeconfig", false),
        (403, None, "", false),
        (403, Some(NodeKeyNotRegistered), "", true),
        (429, None, "", false),
        (429, Some(TooManyPendingRequests), "; approve, deny or delete the CSRs", false),
    ] {
        let error = error(code, cause.as_slice());
        let ApiError::Rejected { remedy, .. } = &error else { panic!("{error}") };
        assert!(remedy.starts_with(expected) && remedy.is_empty() == expected.is_empty(), "{error}");
        assert_eq!(error.is_unregistered(), is_unregistered, "{error}");
    }
}

#[test]
fn only_lasting_identity_errors_need_an_operator() {
    let server = || "https://a:1".to_owned();
    let refused = |code| ApiError::Rejected {
        server: server(),
        code,
        message: String::new(),
        cause: None,
        remedy: Credentials::Anonymous.remedy(code, None),
        retry_after: None,
    };
    for (error, expected) in [
        (refused(401), true),
        (refused(403), true),
        (refused(429), false),
        (refused(503), false),
        (ApiError::OtherCluster { server: server(), forget: String::new() }, true),
        (ApiError::Unreachable { server: server(), why: String::new() }, false),
    ] {
        assert_eq!(error.needs_operator(), expected, "{error}");
    }
    assert!(!refused(429).has_remedy(), "a server that is busy asks for no decision");
}

#[test]
fn clock_skew_is_reported() {
    let known = ClusterAccess {
        servers: Vec::new(),
        authority: Vec::new(),
        retiring: Vec::new(),
        former: Vec::new(),
        credentials: Credentials::Anonymous,
    };
    let found = |server_time| Found { known: known.clone(), prefix: String::new(), server_time };
    let now = Timestamp::UNIX_EPOCH;
    for (seconds, expected) in [(0, false), (60, false), (61, true), (-61, true)] {
        let messages = found(Some(now + SignedDuration::from_secs(seconds))).clock_skew_warning(now);
        assert_eq!(messages.is_some(), expected, "{seconds}: {messages:?}");
    }
    assert_eq!(found(None).clock_skew_warning(now), None);
}

#[tokio::test]
async fn a_warning_is_reported_once_and_repeated_while_it_lasts() {
    let outbox = Outbox::new();
    let mut reporter = EventReporter::new("n1", outbox.clone());
    let start = Timestamp::UNIX_EPOCH;
    for (text, minutes) in [("a at 1", 0), ("a at 2", 1), ("b", 2), ("b", 3), ("a", 4), ("a", 14)] {
        reporter.warn("R", text.to_owned(), start + SignedDuration::from_mins(minutes));
    }
    // Info events are not deduplicated.
    reporter.info("R", "a".to_owned());
    let messages: Vec<String> = outbox.take().await.notes.into_iter().map(|note| note.message).collect();
    assert_eq!(messages, ["a at 1", "b", "a", "a", "a"]);
}
