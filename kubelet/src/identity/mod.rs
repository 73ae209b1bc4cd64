//! The node's identity in a cluster: keys on disk, and certificates that are requested and renewed while the
//! kubelet runs.
//!
//! `client` manages the client certificate and `serving` the certificate of the kubelet's own server. Both run a
//! `certificate_manager`. It resumes after a restart, because the name of a CSR is derived from its key.
//! `cluster_info_refresh` follows changes of the CAs and servers. `discovery` finds a cluster with a join string.
//!
//! These modules are pure: `cluster_info` parses the cluster info, `issuer` classifies the issuer of a certificate,
//! `csr` builds and reads CSRs, and `timing` computes deadlines and delays.

mod access;
mod api;
mod certificate;
mod certificate_manager;
mod client;
mod cluster_info;
mod cluster_info_refresh;
mod csr;
mod discovery;
mod error;
mod event_reporter;
mod files;
mod kubeconfig;
mod master_verifier;
mod serving;
mod timing;
mod tls;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::watch;

pub use self::access::ClusterAccess;
#[cfg(test)]
pub use self::access::Credentials;
pub use self::api::Api;
pub use self::certificate::{Certificate, Facts};
use self::certificate_manager::{CertificateManager, SharedState};
use self::csr::Kind;
pub use self::error::ApiError;
pub use self::event_reporter::EventReporter;
pub use self::timing::{backoff_delay, retry_delay};
use crate::options::{Bootstrap, Cluster};
use crate::report::Outbox;

/// Returns the name of the file in the certificate directory that holds the serving certificate and its key.
pub fn serving_file() -> String {
    Kind::Serving.current()
}

/// Whether the node has joined and has both certificates that it manages.
pub fn has_certificates(cert_dir: &Path) -> bool {
    [Kind::Client, Kind::Serving].iter().all(|kind| cert_dir.join(kind.current()).exists())
}

/// Settings of the node's identity.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// The cluster, and how to join it.
    pub cluster: Cluster,
    /// Directory of certificates and keys.
    pub cert_dir: PathBuf,
    /// The current addresses of the node.
    pub addresses: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, cluster, cert_dir, addresses: _ } = self;
        f.debug_struct("Settings")
            .field("node", node)
            .field("cluster", cluster)
            .field("cert_dir", cert_dir)
            .finish_non_exhaustive()
    }
}

/// The IP addresses of API servers in the kubeconfig and the join settings. DNS names are not resolved. Blocks
/// while it reads files.
pub fn servers(cluster: &Cluster) -> Vec<IpAddr> {
    let named_in = |path: &Path| files::known(path).ok().flatten().map(|known| known.servers);
    let bootstrap = match &cluster.bootstrap {
        Some(Bootstrap::Join(join)) => Some(join.servers.clone()),
        Some(Bootstrap::Kubeconfig(path)) => named_in(path),
        None => None,
    };
    let all = [named_in(&cluster.kubeconfig), bootstrap].into_iter().flatten().flatten();
    all.filter_map(|server| cluster_info::address(&server)).collect()
}

/// Starts the certificate managers. No component waits for them: a node that is not admitted still runs its static pods.
/// Returns how to reach the API server as this node. That changes with the certificate, the CAs and the servers, and is
/// `None` while there is no certificate.
pub fn start(
    settings: Settings,
    outbox: &Arc<Outbox>,
    tasks: &mut Tasks,
) -> watch::Receiver<Option<ClusterAccess>> {
    let settings = Arc::new(settings);
    let (client_sender, client) = watch::channel(None);
    let (access_sender, access) = watch::channel(None);
    let shared = Arc::new(SharedState { authorities: watch::channel(None).0, access: access_sender });
    let reporter = || EventReporter::new(&settings.node, outbox.clone());
    let keeper =
        CertificateManager::new(&settings, Kind::Client, client_sender, client.clone(), &shared, reporter());
    tasks.spawn("client certificate manager", keeper.run());
    // With a bootstrap kubeconfig, the cluster info shows later whether the cluster approves serving certificates
    // automatically.
    if settings.cluster.serving || matches!(settings.cluster.bootstrap, Some(Bootstrap::Kubeconfig(_))) {
        let certificate = watch::channel(None).0;
        let keeper =
            CertificateManager::new(&settings, Kind::Serving, certificate, client, &shared, reporter());
        tasks.spawn("serving certificate manager", keeper.run());
    }
    access
}

#[cfg(test)]
mod tests {
    //! Identity without a server: kubeconfigs, trusted CAs, renewal times and error reports.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod keeping;
    mod reading;
    mod roots;
    mod when;

    use std::collections::BTreeSet;
    use std::sync::Arc;

    use jiff::Timestamp;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::certificate::{Certificate, Facts};

    /// A self-signed certificate and its key, as PEM.
    fn pair(common_name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["n1".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// A certificate with this validity that was written at `since`.
    fn living(from: i64, until: i64, since: i64) -> Certificate {
        let (chain, key) = pair("kubelet:n1");
        let read = Certificate::of(chain.as_bytes(), key.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        let facts = Facts { from, until, ..read.facts };
        Certificate {
            certified: Arc::clone(&read.certified),
            facts,
            since: Timestamp::from_second(since).unwrap(),
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }
}
