//! Who sends a request: a user and groups, from a verified certificate, a token, or nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

/// The user of a request without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The user of what the server does by itself.
const SERVER: &str = "system:apiserver";
/// The group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of everyone who showed credentials that hold.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything, whatever roles say.
pub const MASTERS: &str = "system:masters";
/// The user and the group of whoever reads the files of a master's machine: its kubelet, which asks for a node's certificate.
pub const BESIDE_MASTER: &str = "coracle:beside-master";
/// Under which name a request for a certificate tells among the extras from where it came.
pub const PEER: &str = "coracle.io/peer-address";
/// Under which name the extras tell by what somebody was known.
pub const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Who sends a request; handlers find it in the request's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// Tells this user from others of that name at other times; empty where nothing does.
    pub uid: String,
    /// Every group the user is in, as the credentials list them, `system:authenticated` last.
    pub groups: Vec<String>,
    /// What else the credentials say, such as the pod that a token is of.
    pub extra: BTreeMap<String, Vec<String>>,
    /// SHA-256 of the public key (SubjectPublicKeyInfo) of the certificate, in hex; whoever was known by something else has none.
    pub key: Option<String>,
    /// The name (CN) of the authority that signed the certificate, where it has one.
    pub signed_by: Option<String>,
    /// From where the request came, where it came over a network; no credentials say so.
    pub peer: Option<IpAddr>,
}

impl Identity {
    /// Nobody in particular.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { user: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// The server itself, which nobody has asked.
    pub(crate) fn server() -> Self {
        Self::authenticated(SERVER, [MASTERS.to_owned()])
    }

    /// A user whose credentials hold.
    pub fn authenticated(user: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut all = Vec::new();
        for group in groups.into_iter().chain([AUTHENTICATED.to_owned()]) {
            if !all.contains(&group) {
                all.push(group);
            }
        }
        Self { user: user.into(), groups: all, ..Self::default() }
    }

    /// The user (CN) and groups (every O) of a certificate that was verified before; `None` when it names no user.
    ///
    /// A name in letters that cannot be read makes the whole certificate nobody's: half an identity is none.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let mut identity = Self::of_name(certificate.subject())?;
        identity.extra.insert(CREDENTIAL.to_owned(), vec![format!("X509SHA256={}", hash_of(der))]);
        identity.key = Some(hash_of(certificate.public_key().raw));
        let signer = certificate.issuer().iter_common_name().last().and_then(|name| name.as_str().ok());
        identity.signed_by = signer.map(str::to_owned);
        Some(identity)
    }

    fn of_name(name: &X509Name<'_>) -> Option<Self> {
        // More than one CN: the last is the most specific, and the one other servers take.
        let user = name.iter_common_name().last()?.as_str().ok().filter(|user| !user.is_empty())?;
        let groups: Option<Vec<String>> =
            name.iter_organization().map(|group| group.as_str().ok().map(str::to_owned)).collect();
        Some(Self::authenticated(user, groups?))
    }

    /// Whether the user may do everything, whatever roles say.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Whether no credentials were shown.
    pub fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Whether the user is in that group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// SHA-256 in hex.
fn hash_of(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
