//! The signers that every cluster has: what each signs, and for how long. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node;
use super::request::Request;

/// The shortest life of a certificate that somebody asks for: twice what it begins before it is signed.
const SHORTEST: Duration = Duration::from_secs(10 * 60);

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Certificates by which people and programs are known to the API server.
    Client,
    /// The same for nodes.
    NodeClient,
    /// Certificates by which nodes are known to the API server that calls them.
    NodeServing,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// Signing what is said.
    DigitalSignature,
    /// Sealing keys, as RSA once did.
    KeyEncipherment,
    /// Being a client.
    ClientAuth,
    /// Being a server.
    ServerAuth,
}

impl Usage {
    /// By its name in requests; `None` for those that no signer here gives.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "digital signature" => Some(Self::DigitalSignature),
            "key encipherment" => Some(Self::KeyEncipherment),
            "client auth" => Some(Self::ClientAuth),
            "server auth" => Some(Self::ServerAuth),
            _ => None,
        }
    }

    /// Its name in requests.
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
    /// By its name; `None` for those of others.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client" => Some(Self::Client),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::NodeClient),
            "kubernetes.io/kubelet-serving" => Some(Self::NodeServing),
            _ => None,
        }
    }

    /// What the certificate will be for, when this signer signs that request for these usages.
    ///
    /// # Errors
    /// Why it never will, in the words of the stock signers where they have any.
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

/// How long a certificate is to live when so many seconds are asked for, and at most so long is signed.
pub fn life(asked_seconds: Option<i64>, most: Duration) -> Duration {
    let asked = asked_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    asked.map_or(most, |asked| asked.max(SHORTEST).min(most))
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
    let asked = names.iter().find(|(_, is_absent)| !is_absent);
    asked.map_or(Ok(()), |(kind, _)| Err(format!("{kind} subjectAltNames are not allowed")))
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

/// The usages of a node's certificate; that for keys is RSA's, and others may leave it out.
fn node_usages(usages: &[&str], end: Usage) -> Result<BTreeSet<Usage>, String> {
    let found: Option<BTreeSet<Usage>> = usages.iter().map(|usage| Usage::of(usage)).collect();
    let needed = BTreeSet::from([Usage::DigitalSignature, end]);
    let all = BTreeSet::from([Usage::DigitalSignature, Usage::KeyEncipherment, end]);
    found.filter(|found| *found == needed || *found == all).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|usage| usage.name()).collect();
        format!("usages did not match {names:?}")
    })
}
