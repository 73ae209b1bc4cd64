//! Ingresses and TLS Secrets with the fields that the Ingress controller reads. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use apiserver::auth::{INGRESS_CLASS, INGRESS_CLASS_ANNOTATION};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::Versioned;
use serde::{Deserialize, Serialize};

pub use crate::cluster::services::NamespacedName;

/// The type of Secrets that contain a certificate and its key.
const TLS_SECRET: &str = "kubernetes.io/tls";

/// An Ingress of the class [`INGRESS_CLASS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// The creation time in RFC 3339. Of two equal rules, that of the older Ingress applies.
    pub created: Box<str>,
    /// The backend of requests that match no rule.
    pub default_backend: Option<Backend>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The certificates.
    pub tls: Vec<Tls>,
}

/// The rules of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// The host name, `*.` and a domain for one label before it, or empty for all hosts.
    pub host: Box<str>,
    /// The paths of this host.
    pub http: Paths,
}

/// The paths of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Paths {
    /// The paths, in any order.
    pub paths: Vec<Path>,
}

/// A path and its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Path {
    /// The path; empty for all paths.
    pub path: Box<str>,
    /// How request paths are compared with it.
    pub path_type: PathType,
    /// The backend.
    pub backend: Backend,
}

/// How the path of a request is compared with that of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathType {
    /// The paths are equal.
    Exact,
    /// The elements of the rule are the first elements of the request.
    Prefix,
    /// As the controller decides: the same as `Prefix`.
    #[default]
    ImplementationSpecific,
}

/// A backend of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backend {
    /// The Service in the namespace of the Ingress. `None` for a backend of another kind, which is not supported.
    pub service: Option<ServiceBackend>,
}

/// A Service as a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceBackend {
    /// The name of the Service.
    pub name: Box<str>,
    /// Its port.
    pub port: BackendPort,
}

/// A port of a Service, by name or by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendPort {
    /// The name; empty if the number identifies the port.
    pub name: Box<str>,
    /// The number; 0 if the name identifies the port.
    pub number: u16,
}

/// A certificate of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Tls {
    /// The hosts that use it. If empty, it is the default certificate.
    pub hosts: Vec<Box<str>>,
    /// The name of the Secret in the namespace of the Ingress; empty for the default certificate.
    pub secret_name: Box<str>,
}

/// A certificate chain and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The chain, server certificate first.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles").field("certificate", &self.certificate.len()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub namespace: String,
    pub name: String,
    creation_timestamp: Option<Box<str>>,
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// An Ingress as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiIngress {
    pub metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    ingress_class_name: Option<String>,
    default_backend: Option<Backend>,
    rules: Option<Vec<ApiRule>>,
    tls: Option<Vec<ApiTls>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ApiRule {
    host: Option<Box<str>>,
    http: Option<Paths>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiTls {
    hosts: Option<Vec<Box<str>>>,
    secret_name: Option<Box<str>>,
}

impl ApiIngress {
    /// The name of the Ingress.
    pub fn name(&self) -> NamespacedName {
        NamespacedName::new(&self.metadata.namespace, &self.metadata.name)
    }

    /// The fields that are kept. `None` if the Ingress belongs to another class.
    pub fn into_ingress(self) -> Option<Ingress> {
        let Self { metadata, spec } = self;
        let annotations = metadata.annotations.unwrap_or_default();
        let class = annotations.get(INGRESS_CLASS_ANNOTATION).or(spec.ingress_class_name.as_ref())?;
        if class != INGRESS_CLASS {
            return None;
        }
        let rules = spec.rules.unwrap_or_default().into_iter();
        let tls = spec.tls.unwrap_or_default().into_iter();
        Some(Ingress {
            created: metadata.creation_timestamp.unwrap_or_default(),
            default_backend: spec.default_backend,
            rules: rules
                .map(|rule| Rule { host: rule.host.unwrap_or_default(), http: rule.http.unwrap_or_default() })
                .collect(),
            tls: tls
                .map(|tls| Tls {
                    hosts: tls.hosts.unwrap_or_default(),
                    secret_name: tls.secret_name.unwrap_or_default(),
                })
                .collect(),
        })
    }
}

impl Versioned for ApiIngress {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// A Secret as the API server sends it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiSecret {
    metadata: Metadata,
    #[serde(rename = "type")]
    secret_type: String,
    data: Option<BTreeMap<String, String>>,
}

impl ApiSecret {
    /// The certificate and key. `None` if the Secret has another type, or one of them is missing.
    pub fn into_tls_files(self) -> Option<Arc<TlsFiles>> {
        let data = self.data.filter(|_| self.secret_type == TLS_SECRET)?;
        let text = |name: &str| String::from_utf8(BASE64_STANDARD.decode(data.get(name)?).ok()?).ok();
        Some(Arc::new(TlsFiles { certificate: text("tls.crt")?, key: text("tls.key")? }))
    }
}

impl Versioned for ApiSecret {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}
