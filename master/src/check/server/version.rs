//! Checks the version skew of the API server with this command and with the kubelets. Pure.

use serde_json::Value;

use super::super::finding::{Finding, Subject};
use super::Answer;

/// How many minor versions a kubelet may be older than its API server, by the Kubernetes version skew policy.
const KUBELET_BEHIND: u32 = 3;
/// The text that marks versions of this project.
const OWN: &str = "+coracle-";

/// Version of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The version, such as `v1.36.0+coracle-0.1.0`.
    pub text: String,
}

impl Version {
    /// Parses the response of `/version`.
    ///
    /// # Errors
    /// If the text is not a version of Kubernetes. The error is a finding.
    pub fn of(answer: &Answer) -> Result<Self, Box<Finding>> {
        let document: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        match document.get("gitVersion").and_then(Value::as_str) {
            Some(text) if minor(text).is_some() => Ok(Self { text: text.to_owned() }),
            _ => {
                let what = "the server is not a Kubernetes API server";
                let remedy = "correct the address in the kubeconfig (`server:`)";
                let why = format!("/version returns {} and no version", answer.code);
                Err(Box::new(Finding::problem("master", what, remedy).because(why)))
            }
        }
    }

    /// True for a master of this project.
    pub fn is_own(&self) -> bool {
        self.text.contains(OWN)
    }

    /// Finding for a version that differs from this command's.
    pub fn findings(&self, own: &str) -> Vec<Finding> {
        if !self.is_own() || self.text == own {
            return Vec::new();
        }
        let what = format!("the master has version {} and this command {own}", self.text);
        let remedy = "restart the master after an update, and use the same `master` binary";
        vec![Finding::warning("version", what, remedy)]
    }

    /// Finding for the version skew of a node.
    pub fn of_node(&self, subject: Subject, kubelet: &str) -> Option<Finding> {
        let (server, node_minor) = (minor(&self.text)?, minor(kubelet)?);
        let what = format!("its kubelet has version {kubelet} and the server {}", self.text);
        if node_minor > server {
            let remedy = "update the master before the nodes";
            return Some(
                Finding::problem(subject, what, remedy)
                    .because("a kubelet must not be newer than its server"),
            );
        }
        (server - node_minor > KUBELET_BEHIND).then(|| {
            let cause = format!(
                "Kubernetes supports kubelets that are at most {KUBELET_BEHIND} minor versions older"
            );
            Finding::warning(subject, what, "update the node").because(cause)
        })
    }
}

/// The minor version in a text such as `v1.36.0+more`.
fn minor(text: &str) -> Option<u32> {
    let rest = text.strip_prefix('v')?.strip_prefix("1.")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
