//! What is asked for: a CertificateSigningRequest that is the same one whenever the same key asks for the same. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use apiserver::auth::nodes::{NODES, name_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _, SanType};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::certificate::Facts;

/// Where requests are.
pub const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Bytes of a request's name: nobody who does not know the key meets or guesses it.
const NAME_BYTES: usize = 16;

/// Which of a node's two certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By which the node is known to the API server.
    Client,
    /// By which the node's own API is known to the API server that calls it.
    Serving,
}

impl Kind {
    /// Who signs it.
    pub fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// The file of the certificate that is in use, with its key, under the name that the stock kubelet gives it.
    pub fn current(self) -> String {
        format!("{}-current.pem", self.stem())
    }

    /// What its files are called, as those of the stock kubelet.
    pub fn stem(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }

    /// How it is spoken of.
    pub fn words(self) -> &'static str {
        match self {
            Self::Client => "client certificate",
            Self::Serving => "serving certificate",
        }
    }

    /// What it is for, in the words that signers of every version take.
    fn usages(self) -> [&'static str; 3] {
        let end = match self {
            Self::Client => "client auth",
            Self::Serving => "server auth",
        };
        ["digital signature", "key encipherment", end]
    }
}

/// A certificate that this node should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub kind: Kind,
    /// The node's user.
    pub common_name: String,
    /// DNS names of a server.
    pub dns: BTreeSet<String>,
    /// Addresses of a server.
    pub addresses: BTreeSet<IpAddr>,
}

impl Wanted {
    /// One by which that user is known.
    pub fn client(common_name: String) -> Self {
        Self { kind: Kind::Client, common_name, dns: BTreeSet::new(), addresses: BTreeSet::new() }
    }

    /// Whether that certificate is what is wanted, whatever its age.
    pub fn is_met(&self, facts: &Facts) -> bool {
        // More names than were asked for are the signer's business.
        let names_fit = self.dns.is_subset(&facts.dns) && self.addresses.is_subset(&facts.addresses);
        self.common_name == facts.common_name && (self.kind == Kind::Client || names_fit)
    }

    /// The name of the request: of the key and of what is asked for, so that it is found again and never made twice.
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

    /// The request.
    ///
    /// # Errors
    /// When a name cannot stand in one.
    pub fn object(&self, key: &KeyPair) -> Result<Value, String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, NODES);
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        for name in &self.dns {
            let name = name.as_str().try_into().map_err(|_| format!("{name:?} is no DNS name"))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        let request = params.serialize_request(key).and_then(|request| request.pem());
        let request = request.map_err(|error| format!("no request can be made: {error}"))?;
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

/// Whether a user is that node.
pub fn is_node(user: &str, node: &str) -> bool {
    name_of(user) == Some(node)
}
