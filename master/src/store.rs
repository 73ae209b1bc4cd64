//! The store that the flags name, opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use apiserver::storage::etcd::{Certificates, Endpoint, Etcd};
use apiserver::storage::{Embedded, Error, Limits, Store};
use tokio::time::Instant;

use crate::options::{self, Options, Storage};

/// Where the store lies in the directory of the master.
pub const DIRECTORY: &str = "store";

/// How long a master that begins waits for its etcd, whose other members may have to be started yet: less than the startup probe of
/// `manifests/ha/master.yaml` lets it.
const COMES_WITHIN: Duration = Duration::from_secs(100);

/// Opens the store, an etcd with these certificates.
///
/// # Errors
/// When it is taken, damaged, newer than this master or not to be reached; the message names it and the remedy.
pub async fn open(options: &Options, certificates: &Certificates) -> anyhow::Result<Arc<dyn Store>> {
    let limits = Limits::default();
    match options.storage {
        Storage::Embedded => {
            let directory = options.data_dir.join(DIRECTORY);
            let opened = Embedded::open(&directory, limits).await;
            Ok(Arc::new(opened.with_context(|| format!("cannot open the store in {}", directory.display()))?))
        }
        Storage::Etcd => {
            let begun = Instant::now();
            let opened = loop {
                match Etcd::open(options.etcd.servers.clone(), certificates, limits).await {
                    Err(error @ Error::Unreachable { .. }) if begun.elapsed() < COMES_WITHIN => {
                        tracing::warn!(%error, "waiting for the etcd; see --etcd-servers and --etcd-cafile");
                    }
                    opened => break opened,
                }
            };
            Ok(Arc::new(opened.context("cannot open the store; see --etcd-servers and --etcd-cafile")?))
        }
    }
}

/// The certificates for an etcd, from the files that the flags name.
///
/// # Errors
/// When one of them cannot be read or used.
pub fn certificates(etcd: &options::Etcd) -> anyhow::Result<Certificates> {
    let read = |path: &Path| {
        let unread = || {
            format!("cannot read {}; see --etcd-cafile, --etcd-certfile and --etcd-keyfile", path.display())
        };
        std::fs::read(path).with_context(unread)
    };
    let authority = etcd.authority.as_deref().map(read).transpose()?;
    let own = match (&etcd.certificate, &etcd.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let certificates = Certificates { authority, own };
    if etcd.servers.iter().any(Endpoint::is_tls) {
        let flags = "see --etcd-cafile, --etcd-certfile and --etcd-keyfile";
        certificates.check().map_err(|fault| anyhow::anyhow!("certificates for etcd: {fault}; {flags}"))?;
    }
    Ok(certificates)
}
