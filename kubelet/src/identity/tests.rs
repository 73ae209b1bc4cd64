//! Identity without a server: kubeconfigs, trusted CAs, renewal times and error reports.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod keeping;
mod reading;
mod roots;
mod when;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::certificate::{Certificate, Facts};

/// A self-signed certificate and its key, as PEM.
fn pair(common_name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["n1".to_owned(), "10.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// A certificate with this validity that was written at `since`.
fn living(from: i64, until: i64, since: i64) -> Certificate {
    let (chain, key) = pair("kubelet:n1");
    let read = Certificate::of(chain.as_bytes(), key.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
    let facts = Facts { from, until, ..read.facts };
    Certificate {
        certified: Arc::clone(&read.certified),
        facts,
        since: Timestamp::from_second(since).unwrap(),
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}
