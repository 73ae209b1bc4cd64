//! Checks when certificates expire, and names the remedy. Pure.

use jiff::{SignedDuration, Timestamp};

use super::super::finding::{Finding, Severity};
use crate::pki::Validity;

const DAY: i64 = 24 * 60 * 60;
/// How long before the expiry of a CA certificate a finding is reported. The rotation of a CA needs planning.
const AUTHORITY_NOTICE: SignedDuration = SignedDuration::from_secs(180 * DAY);
/// How long before its expiry a yearly certificate counts as not renewed. The master renews certificates when a
/// third of their lifetime is left.
const LEAF_NOTICE: SignedDuration = SignedDuration::from_secs(30 * DAY);

/// The use of a certificate. It determines who renews the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A CA.
    Authority,
    /// The serving certificate of the master.
    Serving,
    /// A client certificate.
    Client,
}

/// A file with certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The path, or another source.
    pub file: String,
    /// The certificates in order. If the file cannot be read, the reason.
    pub validities: Result<Vec<Validity>, String>,
}

/// The findings for a file. CAs in a chain are checked too.
pub fn findings(read: &Read, leaf: Use, now: Timestamp) -> Vec<Finding> {
    let subject = format!("certificate {}", read.file);
    match &read.validities {
        Err(why) => {
            let remedy = "run this as the user of the master; restore a damaged file from a backup";
            vec![Finding::problem(subject.as_str(), "cannot be read", remedy).because(why)]
        }
        Ok(validities) => {
            let of = |validity: &Validity| {
                judge(&subject, validity, if validity.is_ca { Use::Authority } else { leaf }, now)
            };
            validities.iter().filter_map(of).collect()
        }
    }
}

/// The finding for a CA rotation that is not complete. The file begins with the new root.
pub fn rotation(read: &Read) -> Vec<Finding> {
    let Ok([new, old, ..]) = read.validities.as_deref() else { return Vec::new() };
    let what = format!(
        "two root CAs are trusted: {}, which signs, and {}, which is not retired",
        new.name, old.name
    );
    let remedy = "when all nodes have certificates of the new root and all users have new kubeconfigs: `master rotate-ca --retire`";
    // Certificates are backdated by one hour.
    let made = new.from.checked_add(crate::pki::BACKDATED).unwrap_or(new.from);
    let cause = format!("`master rotate-ca` created a new root around {made}");
    vec![Finding::warning("certificate authority", what, remedy).because(cause)]
}

fn judge(subject: &str, validity: &Validity, of: Use, now: Timestamp) -> Option<Finding> {
    let name = &validity.name;
    if now < validity.from {
        let what = format!("{name} is not valid before {}", validity.from);
        return Some(Finding::problem(subject, what, "set the clocks of this machine and of the master"));
    }
    let left = validity.until.duration_since(now);
    // A short-lived certificate is renewed when a third of its lifetime is left, too.
    let quarter = validity.until.duration_since(validity.from) / 4;
    let notice = if of == Use::Authority { AUTHORITY_NOTICE } else { LEAF_NOTICE.min(quarter) };
    if left > notice {
        return None;
    }
    let remedy = match of {
        Use::Authority if name.contains("intermediate") => {
            "`master rotate-ca --intermediate` on its host, with root.key in place; certificates of the old one expire with it, so \
             create new kubeconfigs before"
        }
        Use::Authority => {
            "run `master rotate-ca` on its host, early enough for nodes and users to switch to the new root: see \
             docs/operating.md"
        }
        Use::Serving => {
            "the master should have renewed it: see its log for the reason, or restart the master"
        }
        Use::Client => {
            "restart the master, which renews admin.kubeconfig; create others with `master kubeconfig --user NAME`"
        }
    };
    let (severity, what) = if left.is_negative() {
        (Severity::Problem, format!("{name} has expired on {}", validity.until))
    } else {
        let days = left.as_hours() / 24;
        (Severity::Warning, format!("{name} expires on {}, in {days} days", validity.until))
    };
    Some(Finding::problem(subject, what, remedy).graded(severity))
}
