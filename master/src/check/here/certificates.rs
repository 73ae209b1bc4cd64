//! How long certificates live yet, and what becomes of them then. Pure.

use jiff::{SignedDuration, Timestamp};

use super::super::finding::{Finding, Severity};
use crate::pki::Life;

const DAY: i64 = 24 * 60 * 60;
/// An authority takes planning: everything it signed and everybody who trusts it is concerned.
const AUTHORITY_NOTICE: SignedDuration = SignedDuration::from_secs(180 * DAY);
/// A master renews its own when a third of a year is left; one with less than this was not renewed.
const LEAF_NOTICE: SignedDuration = SignedDuration::from_secs(30 * DAY);

/// What a certificate is for, which says who renews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It signs others.
    Authority,
    /// The master shows it.
    Serving,
    /// A client shows it.
    Client,
}

/// A file with certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its path, or where else they come from.
    pub file: String,
    /// The certificates in order, or what is wrong with the file.
    pub lives: Result<Vec<Life>, String>,
}

/// What is wrong in a file; of a chain, authorities too.
pub fn findings(read: &Read, leaf: Use, now: Timestamp) -> Vec<Finding> {
    let subject = format!("certificate {}", read.file);
    match &read.lives {
        Err(why) => {
            let remedy = "look as the user the master runs as; a damaged file comes back from a backup";
            vec![Finding::problem(subject.as_str(), "cannot be read", remedy).because(why)]
        }
        Ok(lives) => {
            let of = |life: &Life| {
                judge(&subject, life, if life.is_authority { Use::Authority } else { leaf }, now)
            };
            lives.iter().filter_map(of).collect()
        }
    }
}

/// A root that was made anew, and the one before that is not retired yet; the file begins with the new one.
pub fn rotation(read: &Read) -> Vec<Finding> {
    let Ok([new, old, ..]) = read.lives.as_deref() else { return Vec::new() };
    let what =
        format!("two roots are believed: {}, which signs, and {}, which is not retired", new.name, old.name);
    let remedy = "when every node has a certificate of the new root, and everybody a new kubeconfig: `master rotate-ca --retire`";
    // It holds since an hour before it was made, for clocks that are late.
    let made = new.from.checked_add(crate::pki::BACKDATED).unwrap_or(new.from);
    let cause = format!("`master rotate-ca` made a new one around {made}");
    vec![Finding::warning("certificate authority", what, remedy).because(cause)]
}

fn judge(subject: &str, life: &Life, of: Use, now: Timestamp) -> Option<Finding> {
    let name = &life.name;
    if now < life.from {
        let what = format!("{name} is not valid before {}", life.from);
        return Some(Finding::problem(subject, what, "set the clock of this machine and of the master's"));
    }
    let left = life.until.duration_since(now);
    // One that lives for days only is renewed when a third of them is left, as all are.
    let quarter = life.until.duration_since(life.from) / 4;
    let notice = if of == Use::Authority { AUTHORITY_NOTICE } else { LEAF_NOTICE.min(quarter) };
    if left > notice {
        return None;
    }
    let remedy = match of {
        Use::Authority if name.contains("intermediate") => {
            "`master rotate-ca --intermediate` on its host, with root.key in place; what the old one signed ends with it, so \
             make new kubeconfigs until then"
        }
        Use::Authority => {
            "`master rotate-ca` on its host makes a new root beside this one, in time for nodes and people to go along: see \
             docs/operating.md"
        }
        Use::Serving => {
            "the master renews it by itself each hour: its log says why it does not; else restart it"
        }
        Use::Client => {
            "restart the master, which renews admin.kubeconfig; others are made by `master kubeconfig --user NAME`"
        }
    };
    let (severity, what) = if left.is_negative() {
        (Severity::Problem, format!("{name} has expired on {}", life.until))
    } else {
        let days = left.as_hours() / 24;
        (Severity::Warning, format!("{name} expires on {}, in {days} days", life.until))
    };
    Some(Finding::problem(subject, what, remedy).graded(severity))
}
