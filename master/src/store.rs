//! Opens the storage backend that the flags select.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use apiserver::storage::etcd::{Certificates, Endpoint, Etcd};
use apiserver::storage::{Embedded, Error, Limits, Store, embedded};
use tokio::time::Instant;

use crate::options::{self, Options, Storage};

/// Directory of the embedded store in the data directory.
pub const DIRECTORY: &str = "store";
/// Marker file that shows that the store was created. If it is deleted, the master starts with an empty store.
const MARKER: &str = "store.created";

/// How long a starting master waits for etcd, because other members may not be running yet. It is less than the
/// startup probe in `manifests/ha/master.yaml` allows.
const COMES_WITHIN: Duration = Duration::from_secs(100);

/// Opens the store. `is_first_start` is true if the master has just created its keys.
///
/// # Errors
/// If the store is locked, damaged, missing, newer than this master, or unreachable. The message names the store
/// and the remedy.
pub async fn open(
    options: &Options,
    certificates: &Certificates,
    is_first_start: bool,
) -> anyhow::Result<Arc<dyn Store>> {
    let limits = Limits::default();
    match options.storage {
        Storage::Embedded => {
            let directory = options.data_dir.join(DIRECTORY);
            check_present(&options.data_dir, is_first_start)?;
            let opened = Embedded::open(&directory, limits).await;
            let opened =
                opened.with_context(|| format!("cannot open the store in {}", directory.display()))?;
            mark_created(&options.data_dir.join(MARKER));
            Ok(Arc::new(opened))
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

/// Fails if the store has vanished. With an empty store, nodes would delete their pods, and old certificates would
/// be valid for a new cluster.
fn check_present(data_dir: &Path, is_first_start: bool) -> anyhow::Result<()> {
    let (file, marker) = (data_dir.join(DIRECTORY).join(embedded::FILE), data_dir.join(MARKER));
    let exists = |path: &Path| path.try_exists().with_context(|| path.display().to_string());
    if exists(&file)? {
        return Ok(());
    }
    if exists(&marker)? {
        bail!(
            "{} is missing, and {} shows that it was created: restore a backup (`master restore FILE`), put the file back, \
             or delete {} to start with an empty cluster",
            file.display(),
            marker.display(),
            marker.display()
        );
    }
    if !is_first_start {
        tracing::warn!(
            store = %file.display(),
            "the data directory contains keys but no store: the cluster starts empty; if it had objects, stop the master and \
             restore a backup (`master restore --replace FILE`)"
        );
    }
    Ok(())
}

/// Writes the marker file. The master also works without it.
fn mark_created(marker: &Path) {
    if marker.exists() {
        return;
    }
    let text = "The store of this master was created. If it is missing, the master does not start: restore a backup,\n\
                or delete this file to begin with an empty cluster.\n";
    if let Err(error) = std::fs::write(marker, text) {
        tracing::warn!(marker = %marker.display(), %error, "cannot write the marker file of the store");
    }
}

/// Reads the certificates for etcd.
///
/// # Errors
/// If one of them cannot be read or used.
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
