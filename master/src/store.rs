//! The store that the flags name, opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::storage::etcd::{Certificates, Etcd};
use apiserver::storage::{Embedded, Limits, Store};

use crate::options::{self, Options, Storage};

/// Where the store lies in the directory of the master.
pub const DIRECTORY: &str = "store";

/// Opens the store.
///
/// # Errors
/// When it is taken, damaged, newer than this master or not to be reached; the message names it and the remedy.
pub async fn open(options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    let limits = Limits::default();
    match options.storage {
        Storage::Embedded => {
            let directory = options.data_dir.join(DIRECTORY);
            let opened = Embedded::open(&directory, limits).await;
            Ok(Arc::new(opened.with_context(|| format!("cannot open the store in {}", directory.display()))?))
        }
        Storage::Etcd => {
            let certificates = certificates(&options.etcd)?;
            let opened = Etcd::open(options.etcd.servers.clone(), &certificates, limits).await;
            Ok(Arc::new(opened.context("cannot open the store; see --etcd-servers and --etcd-cafile")?))
        }
    }
}

fn certificates(etcd: &options::Etcd) -> anyhow::Result<Certificates> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let authority = etcd.authority.as_deref().map(read).transpose()?;
    let own = match (&etcd.certificate, &etcd.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    Ok(Certificates { authority, own })
}
