//! The identity of a request: user and groups from a client certificate or a token, or the anonymous user.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

/// User of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// User of requests that the server makes itself.
const SERVER: &str = "system:apiserver";
/// Group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Group with all permissions, independent of RBAC.
pub const MASTERS: &str = "system:masters";
/// Group with access to metrics endpoints.
pub const MONITORING: &str = "system:monitoring";
/// User and group of a kubelet on the machine of the control plane. A credential file on that machine authenticates
/// the kubelet when it requests its node certificate.
pub const BESIDE_MASTER: &str = "coracle:beside-master";
/// Extra key under which a CertificateSigningRequest records the client address.
pub const PEER: &str = "coracle.io/peer-address";
/// Extra key that identifies the credential.
pub const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
/// Extra key with the UID of the pod that a token is bound to.
pub(crate) const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Namespace of the service accounts of the control plane. These accounts do not share a quota.
const SYSTEM: &str = "kube-system";

/// The authenticated user; handlers find it in the request extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// UID of the user; empty if the credential has none.
    pub uid: String,
    /// Groups in the order of the credential, `system:authenticated` last.
    pub groups: Vec<String>,
    /// Extra attributes of the credential, such as the pod of a token.
    pub extra: BTreeMap<String, Vec<String>>,
    /// SHA-256 of the client certificate's public key (SubjectPublicKeyInfo) in hex, or `None` for other
    /// credentials.
    pub key: Option<String>,
    /// Common name (CN) of the certificate's issuer, if it has one.
    pub signed_by: Option<String>,
    /// Client address, if the request came over the network.
    pub peer: Option<IpAddr>,
}

impl Identity {
    /// Returns the anonymous user.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { user: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Returns the identity of the server itself.
    pub(crate) fn server() -> Self {
        Self::authenticated(SERVER, [MASTERS.to_owned()])
    }

    /// Creates an authenticated user.
    pub fn authenticated(user: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut all = Vec::new();
        for group in groups.into_iter().chain([AUTHENTICATED.to_owned()]) {
            if !all.contains(&group) {
                all.push(group);
            }
        }
        Self { user: user.into(), groups: all, ..Self::default() }
    }

    /// Returns the user (CN) and groups (every O) of a verified certificate, or `None` if it names no user.
    ///
    /// A name that cannot be decoded makes the whole certificate invalid, because a partial identity is unsafe.
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
        // With several CNs the last one is the most specific; other servers use it, too.
        let user = name.iter_common_name().last()?.as_str().ok().filter(|user| !user.is_empty())?;
        let groups: Option<Vec<String>> =
            name.iter_organization().map(|group| group.as_str().ok().map(str::to_owned)).collect();
        Some(Self::authenticated(user, groups?))
    }

    /// Whether the user is in `system:masters`.
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Whether the request had no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// The key of per-user limits. For a bound token it is the pod, because the pods of a DaemonSet share a service
    /// account. For another service account it is the namespace, because its users can create more accounts.
    /// Otherwise it is the user.
    pub(crate) fn account(&self) -> String {
        if let Some(pod) = self.extra.get(POD_UID).and_then(|uids| uids.first()) {
            return format!("{} in pod {pod}", self.user);
        }
        let account = self.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match account {
            Some((namespace, _)) if namespace != SYSTEM => format!("system:serviceaccounts:{namespace}"),
            _ => self.user.clone(),
        }
    }

    /// Whether the user is in the given group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Returns the SHA-256 hash of bytes in hexadecimal digits.
fn hash_of(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
