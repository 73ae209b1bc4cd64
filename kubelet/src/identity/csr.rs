//! Builds CertificateSigningRequests and reads their status. The same key and content always give the same CSR.
//! Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use apiserver::auth::nodes::{NODES, name_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _, SanType};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::certificate::Facts;

/// The API path of CSRs.
pub const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Bytes of the hash in a CSR's name. They suffice so that the name cannot be guessed without the key.
const NAME_BYTES: usize = 16;
/// The condition of an approved CSR whose certificate the master withholds.
const NAME_IN_USE: &str = "NodeNameInUse";

/// The two certificates of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The certificate that authenticates the node to the API server.
    Client,
    /// The certificate of the kubelet's own server.
    Serving,
}

impl Kind {
    /// The signer name.
    pub fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// The file name of the current certificate with its key, as the stock kubelet names it.
    pub fn current(self) -> String {
        format!("{}-current.pem", self.stem())
    }

    /// The common prefix of the certificate's file names, as the stock kubelet names them.
    pub fn stem(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }

    /// The name of this certificate in messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Client => "client certificate",
            Self::Serving => "serving certificate",
        }
    }

    /// The key usages. Signers of all versions accept them.
    fn usages(self) -> [&'static str; 3] {
        let end = match self {
            Self::Client => "client auth",
            Self::Serving => "server auth",
        };
        ["digital signature", "key encipherment", end]
    }
}

/// The content of a certificate that the node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The kind: client or serving.
    pub kind: Kind,
    /// The user name of the node.
    pub common_name: String,
    /// DNS names for the subject alternative names.
    pub dns: BTreeSet<String>,
    /// IP addresses for the subject alternative names.
    pub addresses: BTreeSet<IpAddr>,
}

impl CertificateRequest {
    /// Creates a request for a client certificate with this user name.
    pub fn client(common_name: String) -> Self {
        Self { kind: Kind::Client, common_name, dns: BTreeSet::new(), addresses: BTreeSet::new() }
    }

    /// Whether a certificate has the requested content, regardless of its age.
    pub fn is_satisfied_by(&self, facts: &Facts) -> bool {
        // A signer may add names.
        let names_fit = self.dns.is_subset(&facts.dns) && self.addresses.is_subset(&facts.addresses);
        self.common_name == facts.common_name && (self.kind == Kind::Client || names_fit)
    }

    /// The name of the CSR, derived from the key and the content. An existing CSR is thus found again and never
    /// duplicated.
    pub fn name(&self, key: &KeyPair) -> String {
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| {
            digest.update(bytes.len().to_be_bytes());
            digest.update(bytes);
        };
        add(&key.subject_public_key_info());
        add(self.kind.signer().as_bytes());
        add(self.common_name.as_bytes());
        self.dns.iter().for_each(|name| add(name.as_bytes()));
        self.addresses.iter().for_each(|address| add(address.to_string().as_bytes()));
        format!("node-csr-{}", hex::encode(&digest.finalize()[..NAME_BYTES]))
    }

    /// Builds the CertificateSigningRequest object.
    ///
    /// # Errors
    /// If a name is not valid in a CSR.
    pub fn object(&self, key: &KeyPair) -> Result<Value, String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, NODES);
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        for name in &self.dns {
            let name = name.as_str().try_into().map_err(|_| format!("{name:?} is not a DNS name"))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        let request = params.serialize_request(key).and_then(|request| request.pem());
        let request = request.map_err(|error| format!("cannot create a CSR: {error}"))?;
        Ok(json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.name(key)},
            "spec": {
                "request": STANDARD.encode(request),
                "signerName": self.kind.signer(),
                "usages": self.kind.usages(),
            },
        }))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsrStatus {
    /// The CSR is neither approved nor denied.
    Pending,
    /// The CSR is approved, but not yet signed.
    Approved,
    /// The CSR is approved, but the master withholds the certificate, because another machine uses the node's name.
    /// The text is the reason.
    Held(String),
    /// The CSR is signed. The bytes are the certificate as PEM.
    Signed(Vec<u8>),
    /// The CSR is denied, with the reason.
    Denied(String),
    /// The signer failed, with the reason.
    Failed(String),
}

impl CsrStatus {
    /// Reads the status of a CertificateSigningRequest.
    pub fn of(request: &Value) -> Self {
        let status = &request["status"];
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let condition = |kind: &str| {
            let found = conditions.iter().find(|condition| condition["type"] == kind)?;
            let text = |field: &str| found[field].as_str().filter(|text| !text.is_empty());
            Some(text("message").or_else(|| text("reason")).unwrap_or("no reason is given").to_owned())
        };
        // A denial takes precedence over a certificate.
        if let Some(why) = condition("Denied") {
            return Self::Denied(why);
        }
        if let Some(why) = condition("Failed") {
            return Self::Failed(why);
        }
        let signed = status["certificate"].as_str().filter(|text| !text.is_empty());
        match signed.and_then(|text| STANDARD.decode(text).ok()) {
            Some(pem) => Self::Signed(pem),
            None if condition("Approved").is_some() => {
                condition(NAME_IN_USE).map_or(Self::Approved, Self::Held)
            }
            None => Self::Pending,
        }
    }
}

/// Whether the user name belongs to the node.
pub fn is_node(user: &str, node: &str) -> bool {
    name_of(user) == Some(node)
}
