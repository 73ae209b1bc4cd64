//! Tests of the checks of server and data directory, and of reports.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError};
use serde_json::json;

use super::finding::{Finding, Report, Severity};
use super::here::certificates::{self, Read, Use};
use super::here::disk::{self, Room};
use super::here::{Secret, secret_findings};
use super::server::Answer;
use super::server::clock::{self, Reading};
use super::server::health;
use super::server::refusal::{self, Refusal, Way};
use super::server::version::Version;
use super::{as_json, as_text};
use crate::pki::Validity;

const GIB: u64 = 1 << 30;

fn line(finding: &Finding) -> String {
    let mut report = Report::default();
    report.add("x", vec![finding.clone()]);
    as_text(&report).lines().next().unwrap().to_owned()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn every_connection_error_has_a_remedy() {
    let expired = CertificateError::ExpiredContext {
        time: UnixTime::since_unix_epoch(Duration::from_secs(86_400)),
        not_after: UnixTime::since_unix_epoch(Duration::from_secs(0)),
    };
    let other_name = CertificateError::NotValidForNameContext {
        expected: ServerName::try_from("api.example.com").unwrap(),
        presented: vec!["localhost".to_owned(), "kubernetes".to_owned()],
    };
    let way = Way { file: "f".to_owned(), server: "https://h:1".to_owned(), ..Way::default() };
    let here = Way { data_dir: Some("/d".to_owned()), ..way.clone() };
    let elsewhere = Way { runs: true, advertised: Some("10.0.0.1:6443".parse().unwrap()), ..here.clone() };
    for (refusal, way, words) in [
        (Refusal::Closed, &way, ["nothing listens at https://h:1", "start the master there"]),
        (Refusal::Closed, &here, ["no master is running on /d", "`master run --data-dir /d`"]),
        (
            Refusal::Closed,
            &elsewhere,
            ["a master is running on /d, but not at the address", "it advertises 10.0.0.1:6443"],
        ),
        (Refusal::NoSuchHost("unknown".to_owned()), &way, ["is not found: unknown", "`server:`"]),
        (Refusal::Unreachable("no route".to_owned()), &way, ["cannot be reached: no route", "firewalls"]),
        (Refusal::Silent(Duration::from_secs(10)), &way, ["there was no response for 10 s", "firewall"]),
        (
            Refusal::Certificate(expired),
            &way,
            ["valid until 1970-01-01T00:00:00Z, and the local time is 1970-01-02", "restart"],
        ),
        (Refusal::Certificate(other_name), &way, ["it is valid for localhost, kubernetes", "--tls-san"]),
        (
            Refusal::Certificate(CertificateError::UnknownIssuer),
            &here,
            ["a CA that is not in f", "`master --data-dir /d kubeconfig"],
        ),
        (
            Refusal::Alert(AlertDescription::CertificateExpired),
            &way,
            ["it has expired", "renews admin.kubeconfig"],
        ),
        (Refusal::Alert(AlertDescription::UnknownCA), &way, ["does not trust the CA", "kubeconfig --user"]),
        (Refusal::Alert(AlertDescription::InternalError), &way, ["InternalError", "log"]),
        (Refusal::NoTls("garbage".to_owned()), &way, ["does not speak TLS", "port"]),
        (Refusal::HungUp("reset".to_owned()), &way, ["closed the connection: reset", "log"]),
        (Refusal::Unusable("no key".to_owned()), &way, ["f cannot be used: no key", "kubeconfig --user"]),
    ] {
        let finding = refusal::finding(&refusal, way);
        assert_eq!(finding.severity, Severity::Problem);
        let line = line(&finding);
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} are not in {line}");
    }
}

#[test]
fn each_failed_check_is_one_finding() {
    let answer = |code: u16, body: &str| Answer { code, body: body.to_owned() };
    let fine = answer(200, "[+]ping ok\nlivez check passed\n");
    for (live, ready, expected) in [
        (&fine, answer(200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"), vec![]),
        (&fine, answer(200, "ok"), vec![]),
        (
            &fine,
            answer(500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"),
            vec!["the check etcd of /readyz fails"],
        ),
        (
            &answer(500, "[-]ping failed: asleep\n"),
            answer(500, "[-]ping failed: asleep\n[-]other failed: reason withheld\n"),
            vec!["the check ping of /livez fails", "the check other of /readyz fails"],
        ),
        (
            &fine,
            answer(500, "[-]store-file failed: reason withheld\n[-]etcd-quota failed: reason withheld\n"),
            vec!["the check store-file of /readyz fails", "the check etcd-quota of /readyz fails"],
        ),
        (&answer(502, "<html>"), answer(502, "<html>"), vec!["/livez returns 502"]),
    ] {
        let found = health::findings(live, &ready);
        assert_eq!(found.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn clock_skew_and_version_skew_are_findings() {
    let sent = at("2026-06-01T12:00:00.9Z");
    let reading = |date: &str| Reading {
        date: date.to_owned(),
        sent,
        received: sent + SignedDuration::from_millis(300),
    };
    for (date, expected) in [
        ("Mon, 01 Jun 2026 12:00:00 GMT", None),
        ("Mon, 01 Jun 2026 12:00:06 GMT", None),
        ("Mon, 01 Jun 2026 11:59:50 GMT", Some((Severity::Warning, "9 s behind"))),
        ("Mon, 01 Jun 2026 12:05:01 GMT", Some((Severity::Problem, "299 s ahead of"))),
        ("noon", Some((Severity::Warning, "sends no valid time"))),
    ] {
        let found = clock::findings(Some(&reading(date)));
        assert_eq!(
            found.first().map(|finding| finding.severity),
            expected.map(|(severity, _)| severity),
            "{date}"
        );
        assert!(expected.is_none_or(|(_, words)| found[0].what.contains(words)), "{date}: {found:?}");
    }
    assert_eq!(clock::findings(None), []);
    let version = |body: &str| Version::of(&Answer { code: 200, body: body.to_owned() });
    assert!(version("<html>").is_err() && version(r#"{"gitVersion":"latest"}"#).is_err());
    let own = version(r#"{"gitVersion":"v1.36.0+coracle-0.1.0"}"#).unwrap();
    assert_eq!(own.findings("v1.36.0+coracle-0.1.0"), []);
    assert_eq!(own.findings("v1.37.0+coracle-0.2.0").len(), 1);
    assert_eq!(version(r#"{"gitVersion":"v1.36.0"}"#).unwrap().findings("v1.37.0+coracle-0.2.0"), []);
}

#[test]
fn expiring_certificates_are_findings_in_time() {
    let now = at("2026-06-01T00:00:00Z");
    let validity = |until: &str, is_ca: bool| Validity {
        name: "coracle-root-1".to_owned(),
        from: at("2025-06-01T00:00:00Z"),
        until: at(until),
        is_ca,
    };
    for (validities, of, expected) in [
        (Ok(vec![validity("2027-01-01T00:00:00Z", false)]), Use::Serving, None),
        (
            Ok(vec![validity("2026-10-01T00:00:00Z", true)]),
            Use::Serving,
            Some((Severity::Warning, "in 122 days")),
        ),
        (Ok(vec![validity("2026-10-01T00:00:00Z", false)]), Use::Client, None),
        (
            Ok(vec![validity("2026-06-11T00:00:00Z", false)]),
            Use::Client,
            Some((Severity::Warning, "in 10 days")),
        ),
        (
            Ok(vec![validity("2026-05-31T00:00:00Z", false)]),
            Use::Serving,
            Some((Severity::Problem, "has expired on 2026-05-31")),
        ),
        (Err("it is damaged".to_owned()), Use::Serving, Some((Severity::Problem, "cannot be read"))),
    ] {
        let read = Read { file: "f".to_owned(), validities };
        let found = certificates::findings(&read, of, now);
        assert_eq!(
            found.first().map(|finding| finding.severity),
            expected.map(|(severity, _)| severity),
            "{read:?}"
        );
        assert!(expected.is_none_or(|(_, words)| found[0].what.contains(words)), "{found:?}");
    }
    let early = Read { file: "f".to_owned(), validities: Ok(vec![validity("2027-01-01T00:00:00Z", true)]) };
    let found = certificates::findings(&early, Use::Serving, at("2025-01-01T00:00:00Z"));
    assert!(found[0].what.contains("not valid before") && found[0].remedy.contains("clock"), "{found:?}");
}

#[test]
fn nearly_full_disks_are_findings() {
    let room = |free_bytes: u64, free_files: Option<u64>| Ok(Room { free_bytes, free_files });
    for (room, store, expected) in [
        (room(9 * GIB, Some(1 << 20)), Some(GIB), vec![]),
        (room(9 * GIB, None), None, vec![]),
        (room(GIB / 2, None), None, vec![Severity::Warning]),
        (room(GIB / 8, None), None, vec![Severity::Problem]),
        (room(2 * GIB, None), Some(3 * GIB), vec![Severity::Warning]),
        (room(9 * GIB, Some(3)), None, vec![Severity::Warning]),
        (room(9 * GIB, Some(0)), None, vec![Severity::Problem]),
        (room(9 * GIB, None), Some(5 * GIB), vec![Severity::Warning]),
        (Err("no".to_owned()), None, vec![Severity::Problem]),
    ] {
        let found = disk::findings("/d", &room, store);
        assert_eq!(
            found.iter().map(|finding| finding.severity).collect::<Vec<_>>(),
            expected,
            "{room:?} {store:?}"
        );
    }
}

#[test]
fn readable_private_keys_are_findings() {
    for (mode, expected) in [
        (0o100_600, None),
        (0o100_400, None),
        (0o100_644, Some("(mode 644)")),
        (0o100_640, Some("(mode 640)")),
        (0o100_602, Some("(mode 602)")),
    ] {
        let found = secret_findings(&[Secret { file: "/d/root.key".to_owned(), mode }]);
        assert_eq!(found.len(), usize::from(expected.is_some()), "{mode:o}");
        let line = found.first().map(line).unwrap_or_default();
        assert!(
            expected.is_none_or(|words| line.contains(words) && line.contains("`chmod 600 /d/root.key`")),
            "{line}"
        );
    }
}

#[test]
fn report_escapes_control_characters() {
    let mut report = Report::default();
    let message = "\x1b]0;title\x07\x1b[2J\u{9b}31m";
    report
        .add("warnings", vec![Finding::warning("Warning Failed", "1 recent event", "look").because(message)]);
    let text = as_text(&report);
    assert!(text.contains("^[]0;title^G^[[2J\\u{9b}31m"), "{text:?}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn report_has_the_format_of_the_kubelet_check() {
    let mut report = Report::default();
    assert!(as_text(&report) == "0 checks fine\n" && report.is_healthy());
    report.add("master", Vec::new());
    report.add("access", vec![Finding::warning("w", "is odd", "look")]);
    assert!(report.is_healthy(), "a warning fails nothing");
    report.add("pods", vec![Finding::problem("p", "is down", "start it").because("it was\n\tstopped. ")]);
    assert!(!report.is_healthy());
    assert_eq!(
        as_text(&report),
        "p: is down: it was stopped; start it\nw: warning: is odd; look\n1 check fine, 1 problem, 1 warning\n"
    );
    assert_eq!(
        as_json(&report),
        json!({
            "healthy": false,
            "fine": 1,
            "problems": [{"check": "pods", "about": "p", "object": null, "what": "is down", "cause": "it was stopped", "remedy": "start it"}],
            "warnings": [{"check": "access", "about": "w", "object": null, "what": "is odd", "cause": "", "remedy": "look"}],
        })
    );
    let many: Vec<Finding> =
        (0..30).map(|n| Finding::problem("p", format!("is down {n}"), "start it")).collect();
    let mut report = Report::default();
    report.add("pods", many);
    let text = as_text(&report);
    assert_eq!(text.lines().count(), 22, "{text}");
    assert!(text.contains("pods: 10 problems more like these"), "{text}");
    assert_eq!(as_json(&report)["problems"].as_array().unwrap().len(), 30);
}
