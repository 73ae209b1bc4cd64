//! What is kept on the disk, through kills and damage, and what a person is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rcgen::PublicKeyData as _;

use super::super::access::{Known, Shows};
use super::super::discover::Found;
use super::super::files::{Files, known};
use super::super::kubeconfig;
use super::super::request::Kind;
use super::super::trouble::Trouble;
use super::super::voice::Voice;
use super::pair;
use crate::report::Outbox;

fn files(folder: &tempfile::TempDir) -> Files {
    Files { cert_dir: folder.path().join("a/pki"), kubeconfig: folder.path().join("etc/kubeconfig") }
}

#[test]
fn a_key_waits_on_the_disk_until_it_has_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    let first = files.key(Kind::Client, None).unwrap();
    let again = files.key(Kind::Client, None).unwrap();
    assert_eq!(first.serialize_pem(), again.serialize_pem());
    let path = folder.path().join("a/pki/kubelet-client.key.tmp");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(files.key(Kind::Serving, None).unwrap().serialize_pem(), first.serialize_pem());
    // A kill came between the certificate and the end of the key's waiting.
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
    // What cannot be used is as if it were not there: another is asked for.
    fs::write(&current, "damaged").unwrap();
    assert!(files.certificate(Kind::Client).unwrap().is_none());
}

#[test]
fn a_kubeconfig_is_written_once_and_leads_to_what_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&folder);
    assert!(files.known().unwrap().is_none());
    let (chain, key) = pair("kubelet:n1");
    let wanted = Known {
        servers: vec!["https://a:1".to_owned()],
        authority: chain.as_bytes().to_vec(),
        leaving: Vec::new(),
        before: vec!["00".to_owned()],
        shows: Shows::Nothing,
    };
    files.write_kubeconfig(&wanted).unwrap();
    // It points to a certificate that is not there yet.
    assert!(matches!(files.known().unwrap().unwrap().shows, Shows::Nothing));
    files.keep(Kind::Client, chain.as_bytes(), &key).unwrap();
    let found = files.known().unwrap().unwrap();
    assert!(matches!(&found.shows, Shows::Certificate(own) if own.facts.common_name == "kubelet:n1"));
    let same = found.clone().showing(Shows::Nothing);
    assert!(same.is_same(&wanted) && same.before == wanted.before, "{found:?}");
    let written = || fs::metadata(&files.kubeconfig).unwrap().modified().unwrap();
    let before = written();
    files.write_kubeconfig(&wanted).unwrap();
    assert_eq!(written(), before);
    let more = Known { servers: vec!["https://b:1".to_owned()], ..wanted };
    assert!(files.rewrite_kubeconfig(&more).unwrap());
    assert_eq!(files.known().unwrap().unwrap().servers, more.servers);
    // A damaged certificate is no damaged kubeconfig: the way to the cluster is known, and another is asked for.
    fs::write(files.current(Kind::Client), "damaged").unwrap();
    assert!(matches!(files.known().unwrap().unwrap().shows, Shows::Nothing));
    assert!(known(&files.kubeconfig).unwrap_err().to_string().contains("client certificate that holds no"));
    // The cure for a node that is not known any more is the file that it shows.
    let remedy = |shows_others: bool| files.remedy_of_unregistered(shows_others);
    assert!(!files.shows_others().unwrap());
    assert!(
        remedy(false).contains("machine remove ")
            && remedy(false).contains("etc/kubeconfig and the flags may stay")
    );
    // Somebody else's is left alone, whatever the cluster tells.
    let others = kubeconfig::text(&more, Path::new("/elsewhere.pem"));
    fs::write(&files.kubeconfig, &others).unwrap();
    assert!(files.shows_others().unwrap());
    assert!(remedy(true).contains("replace the certificate in ") && !remedy(true).contains("may stay"));
    assert!(!files.rewrite_kubeconfig(&more).unwrap());
    assert_eq!(fs::read_to_string(&files.kubeconfig).unwrap(), others);
    fs::write(&files.kubeconfig, "a: [").unwrap();
    assert!(known(&files.kubeconfig).unwrap_err().to_string().contains("etc/kubeconfig does not read"));
}

#[test]
fn everything_in_the_way_says_what_to_do() {
    let server = "https://a:1".to_owned();
    let refused = |code, shows: &Shows| Trouble::Refused {
        server: server.clone(),
        code,
        message: "no".to_owned(),
        remedy: shows.remedy(code, if code == 429 { "10 requests of the node are undecided" } else { "no" }),
        retry_after: None,
    };
    let token = Shows::Token("abcdef.0123456789abcdef".to_owned());
    for (trouble, expected) in [
        (refused(401, &token), "kubectl -n kube-system patch secret bootstrap-token-abcdef"),
        (refused(401, &Shows::Nothing), "--bootstrap-kubeconfig"),
        (refused(403, &Shows::Nothing), "--bootstrap-kubeconfig"),
        (refused(429, &Shows::Nothing), "kubectl get csr"),
        (refused(500, &token), "answered 500: no"),
        (Trouble::Name { server: server.clone() }, "--tls-san"),
        (
            Trouble::OtherCluster { server: server.clone(), forget: String::new() }.with_files("X and Y"),
            "after X and Y were removed",
        ),
        (
            Trouble::Clock {
                server: server.clone(),
                why: "has expired",
                own: Timestamp::UNIX_EPOCH,
                theirs: None,
            }
            .with_clock(Timestamp::from_second(86_400).ok()),
            "which says 1970-01-01T00:00:00Z, while the server's says 1970-01-02T00:00:00Z: set the clock",
        ),
    ] {
        let text = trouble.to_string();
        assert!(text.contains(expected) && !text.contains("0123456789abcdef"), "{text}");
    }
}

#[test]
fn who_greets_minds_only_what_lasts_until_a_person_does_something() {
    let server = || "https://a:1".to_owned();
    let refused = |code| Trouble::Refused {
        server: server(),
        code,
        message: String::new(),
        remedy: Shows::Nothing.remedy(code, "too many requests"),
        retry_after: None,
    };
    for (trouble, expected) in [
        (refused(401), true),
        (refused(403), true),
        (refused(429), false),
        (refused(503), false),
        (Trouble::OtherCluster { server: server(), forget: String::new() }, true),
        (Trouble::Unreachable { server: server(), why: String::new() }, false),
    ] {
        assert_eq!(trouble.shuts_out(), expected, "{trouble}");
    }
    assert!(!refused(429).has_remedy(), "a server that is busy asks for no decision");
}

#[test]
fn clocks_that_are_apart_are_told() {
    let known = Known {
        servers: Vec::new(),
        authority: Vec::new(),
        leaving: Vec::new(),
        before: Vec::new(),
        shows: Shows::Nothing,
    };
    let found = |server_time| Found { known: known.clone(), prefix: String::new(), server_time };
    let now = Timestamp::UNIX_EPOCH;
    for (seconds, expected) in [(0, false), (60, false), (61, true), (-61, true)] {
        let told = found(Some(now + SignedDuration::from_secs(seconds))).clocks(now);
        assert_eq!(told.is_some(), expected, "{seconds}: {told:?}");
    }
    assert_eq!(found(None).clocks(now), None);
}

#[tokio::test]
async fn each_thing_is_told_once_and_again_while_it_lasts() {
    let outbox = Outbox::new();
    let mut voice = Voice::new("n1", outbox.clone());
    let start = Timestamp::UNIX_EPOCH;
    for (text, minutes) in [("a at 1", 0), ("a at 2", 1), ("b", 2), ("b", 3), ("a", 4), ("a", 14)] {
        voice.warn("R", text.to_owned(), start + SignedDuration::from_mins(minutes));
    }
    // What happens is told each time.
    voice.tell("R", "a".to_owned());
    let told: Vec<String> = outbox.take().await.notes.into_iter().map(|note| note.message).collect();
    assert_eq!(told, ["a at 1", "b", "a", "a", "a"]);
}
