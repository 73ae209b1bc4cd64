//! Who this node is to a cluster: keys on its own disk, certificates asked for and renewed while it runs.
//!
//! `client` keeps the certificate by which the node is known, `serving` the one of its own API; both are a `keeper` that looks,
//! does one step and looks again, and finds after any kill what it was about, because a request is named by its key. A node that is
//! in asks its cluster again who it is (`learn`). What is pure decides: `cluster_info` and `discover` whom to believe, `standing`
//! whose a certificate is, `verdict` what has become of a request, `pace` when to do what.

mod access;
mod api;
mod appear;
mod certificate;
mod client;
mod cluster_info;
mod discover;
mod files;
mod keeper;
mod kubeconfig;
mod learn;
mod masters;
mod pace;
mod request;
mod serving;
mod standing;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod verdict;
mod voice;
mod watching;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

pub use self::access::Known;
#[cfg(test)]
pub use self::access::Shows;
pub use self::api::Api;
pub use self::certificate::{Certificate, Facts};
pub use self::keeper::chance;
use self::keeper::{Common, Keeper};
pub use self::pace::{back_off, grown, pause_after};
use self::request::Kind;
pub use self::trouble::Trouble;
pub use self::voice::Voice;
use crate::options::{Bootstrap, Cluster};
use crate::report::Outbox;

/// The file in the directory of certificates that holds the authorities of the node's cluster: whose clients it answers.
pub const AUTHORITIES: &str = "ca.crt";

/// The file in that directory that holds the certificate of the node's own API, which the cluster has signed, and its key.
pub fn serving_file() -> String {
    Kind::Serving.current()
}

/// What others go by.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The newest certificate by which the node is known to the API server; `None` while there is none.
    pub client: watch::Receiver<Option<Arc<Certificate>>>,
    /// The way to the API server as that node, with what is shown there; it changes with the certificate, the authorities and the
    /// servers. `None` while there is no certificate.
    pub way: watch::Receiver<Option<Known>>,
    /// Changes when one of the files was written that the node's own API goes by: [`serving_file`] and [`AUTHORITIES`].
    pub files: watch::Receiver<()>,
}

/// Whether the node keeps both of its certificates itself: it has joined, and was given them.
pub fn is_kept(cert_dir: &Path) -> bool {
    [Kind::Client, Kind::Serving].iter().all(|kind| cert_dir.join(kind.current()).exists())
}

/// What to be, and to whom.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// The cluster, and how to get into it.
    pub cluster: Cluster,
    /// Where certificates and keys are.
    pub cert_dir: PathBuf,
    /// The node's addresses as they are now.
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

/// The addresses of a cluster's API servers, as far as the node's kubeconfig and what it joins by name them by address: of the others
/// nobody is asked. Blocks for as long as it takes to read a file.
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

/// Begins to get and keep the node's certificates. Nothing waits for them: a node that is not let in runs its own pods.
pub fn start(settings: Settings, outbox: &Arc<Outbox>) -> Identity {
    let settings = Arc::new(settings);
    let (client_shelf, client) = watch::channel(None);
    let (files, files_written) = watch::channel(());
    let (way_shown, way) = watch::channel(None);
    let common = Arc::new(Common { told: watch::channel(None).0, way: way_shown, files });
    let voice = || Voice::new(&settings.node, outbox.clone());
    let keeper = Keeper::new(&settings, Kind::Client, client_shelf, client.clone(), &common, voice());
    tokio::spawn(keeper.run());
    // By a bootstrap kubeconfig it is found out on the way whether the cluster is one that approves by itself what this asks for.
    if settings.cluster.serving || matches!(settings.cluster.bootstrap, Some(Bootstrap::Kubeconfig(_))) {
        let shelf = watch::channel(None).0;
        let keeper = Keeper::new(&settings, Kind::Serving, shelf, client.clone(), &common, voice());
        tokio::spawn(keeper.run());
    }
    Identity { client, way, files: files_written }
}
