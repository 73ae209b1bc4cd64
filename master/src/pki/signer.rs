//! The stock signers for CSRs: which certificates each signs, and for how long. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node;
use super::request::Request;

/// Shortest lifetime of a requested certificate: twice the time by which it is backdated.
const MIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// A stock signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The signer `kubernetes.io/kube-apiserver-client`, for client certificates of users.
    Client,
    /// The signer `kubernetes.io/kube-apiserver-client-kubelet`, for client certificates of nodes.
    NodeClient,
    /// The signer `kubernetes.io/kubelet-serving`, for serving certificates of nodes.
    NodeServing,
}

/// A key usage in a CSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// The usage `digital signature`.
    DigitalSignature,
    /// The usage `key encipherment`, for RSA key exchange.
    KeyEncipherment,
    /// The usage `client auth`.
    ClientAuth,
    /// The usage `server auth`.
    ServerAuth,
}

impl Usage {
    /// Parses a usage. `None` if no signer here grants it.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "digital signature" => Some(Self::DigitalSignature),
            "key encipherment" => Some(Self::KeyEncipherment),
            "client auth" => Some(Self::ClientAuth),
            "server auth" => Some(Self::ServerAuth),
            _ => None,
        }
    }

    /// The name in CSRs.
    pub fn name(self) -> &'static str {
        match self {
            Self::DigitalSignature => "digital signature",
            Self::KeyEncipherment => "key encipherment",
            Self::ClientAuth => "client auth",
            Self::ServerAuth => "server auth",
        }
    }
}

impl Signer {
    /// Finds a signer by name. `None` for other signers.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client" => Some(Self::Client),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::NodeClient),
            "kubernetes.io/kubelet-serving" => Some(Self::NodeServing),
            _ => None,
        }
    }

    /// The usages of the certificate, if this signer accepts the CSR.
    ///
    /// # Errors
    /// If the signer does not accept the CSR. The error is the reason, in the words of the stock signers where they
    /// have one.
    pub fn check(self, request: &Request, usages: &[&str]) -> Result<BTreeSet<Usage>, String> {
        match self {
            Self::Client => client_usages(usages),
            Self::NodeClient => {
                of_node(request)?;
                let names = [
                    ("DNS", request.names.dns.is_empty()),
                    ("Email", request.emails.is_empty()),
                    ("IP", request.names.addresses.is_empty()),
                    ("URI", request.uris.is_empty()),
                ];
                none_of(&names)?;
                node_usages(usages, Usage::ClientAuth)
            }
            Self::NodeServing => {
                of_node(request)?;
                if request.names.dns.is_empty() && request.names.addresses.is_empty() {
                    return Err("DNS or IP subjectAltName is required".to_owned());
                }
                none_of(&[("Email", request.emails.is_empty()), ("URI", request.uris.is_empty())])?;
                node_usages(usages, Usage::ServerAuth)
            }
        }
    }
}

/// The lifetime for a requested number of seconds, at most `most`.
pub fn life(requested_seconds: Option<i64>, most: Duration) -> Duration {
    let requested =
        requested_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    requested.map_or(most, |requested| requested.max(MIN_LIFETIME).min(most))
}

fn of_node(request: &Request) -> Result<(), String> {
    if request.organizations != [node::GROUP] {
        return Err(format!("subject organization is not {}", node::GROUP));
    }
    if node::of_user(&request.common_name).is_none() {
        return Err(
            "subject common name does not begin with system:node: or kubelet: and end with the name of a node"
                .to_owned(),
        );
    }
    Ok(())
}

fn none_of(names: &[(&str, bool)]) -> Result<(), String> {
    let requested = names.iter().find(|(_, is_absent)| !is_absent);
    requested.map_or(Ok(()), |(kind, _)| Err(format!("{kind} subjectAltNames are not allowed")))
}

fn client_usages(usages: &[&str]) -> Result<BTreeSet<Usage>, String> {
    let mut found = BTreeSet::new();
    for usage in usages {
        match Usage::of(usage) {
            Some(known) if known != Usage::ServerAuth => drop(found.insert(known)),
            _ => return Err(format!("invalid usage for client certificate: {usage}")),
        }
    }
    if found.contains(&Usage::ClientAuth) {
        Ok(found)
    } else {
        Err("missing required usage for client certificate: client auth".to_owned())
    }
}

/// Checks the usages of a node certificate. `key encipherment` is optional, for RSA keys.
fn node_usages(usages: &[&str], end: Usage) -> Result<BTreeSet<Usage>, String> {
    let found: Option<BTreeSet<Usage>> = usages.iter().map(|usage| Usage::of(usage)).collect();
    let needed = BTreeSet::from([Usage::DigitalSignature, end]);
    let all = BTreeSet::from([Usage::DigitalSignature, Usage::KeyEncipherment, end]);
    found.filter(|found| *found == needed || *found == all).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|usage| usage.name()).collect();
        format!("usages did not match {names:?}")
    })
}
