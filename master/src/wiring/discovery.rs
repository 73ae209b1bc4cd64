//! Serves cluster-info from a file (`master discovery`).

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use apiserver::tls::{self, Keys};
use apiserver::{Status, flowcontrol};
use jiff::{SignedDuration, Timestamp};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::signals::Signals;
use crate::bootstrap::{self, ClusterInfo, DiscoveryFile};
use crate::pki;

/// Interval at which the file is reloaded.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// How long before the expiry of the certificate a warning is logged.
const REMINDER: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Serves cluster-info from a file until a signal arrives. The file is reloaded when it changes.
///
/// # Errors
/// If the file cannot be used or the address cannot be bound.
pub async fn run_discovery(file: PathBuf, listen: SocketAddr) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    let (found, config) = read_discovery(&file)?;
    warn_of_readers(&file, mode_open_to_others(&file));
    let (tls_config, config) = watch::channel(config);
    let (info, current) = watch::channel(found);
    let router = bootstrap::router(move || current.borrow().clone())
        .fallback(|| async { Status::no_such_path() })
        .method_not_allowed_fallback(|| async { Status::no_such_method() });
    let router = flowcontrol::limit_in_flight(router, flowcontrol::Limits::default());
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}; see --listen"))?;
    tracing::info!(%listen, "serving cluster-info");
    let (stop, stopped) = watch::channel(false);
    tokio::select! {
        () = tls::serve(listener, router, config, stopped) => {}
        () = reload(file, &info, &tls_config) => {}
        () = signals.forward(stop) => {}
    }
    Ok(())
}

/// Reloads the file at each interval, until the future is dropped.
async fn reload(
    file: PathBuf,
    info: &watch::Sender<ClusterInfo>,
    tls_config: &watch::Sender<Arc<tls::Config>>,
) {
    let mut mode = mode_open_to_others(&file);
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let path = file.clone();
        let before = std::mem::replace(&mut mode, mode_open_to_others(&file));
        warn_of_readers(&file, mode.filter(|_| mode != before));
        match tokio::task::spawn_blocking(move || read_discovery(&path)).await {
            Ok(Ok((found, config))) => {
                tls_config.send_replace(config);
                info.send_replace(found);
            }
            Ok(Err(error)) => {
                let error = format!("{error:#}");
                tracing::error!(error, "cannot reload the file; using the previous contents");
            }
            Err(error) => tracing::error!(%error, "cannot reload the file; using the previous contents"),
        }
    }
}

/// The mode of a file with a private key that other users can access. `None` if they cannot.
fn mode_open_to_others(file: &Path) -> Option<u32> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    (mode & pki::files::OTHERS != 0).then_some(mode)
}

fn warn_of_readers(file: &Path, mode: Option<u32>) {
    let Some(mode) = mode else { return };
    let (file, mode) = (file.display(), format!("{mode:o}"));
    tracing::warn!(
        %file, mode,
        "other users can read the private key in this file: run `chmod 600` on it; if the key may be compromised, create a new file with `master cluster-info`",
    );
}

/// Reads the cluster-info and the TLS settings of a file. Warns if the certificate expires soon.
fn read_discovery(file: &Path) -> anyhow::Result<(ClusterInfo, Arc<tls::Config>)> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let now = Timestamp::now();
    let found = DiscoveryFile::read(&text, now).map_err(|fault| {
        anyhow::anyhow!("{shown} {fault}; `master cluster-info --tls-san NAME,...` on a master creates it")
    })?;
    if found.until.duration_since(now) < REMINDER {
        let until = found.until;
        tracing::warn!(%until, "the certificate expires soon: create a new file with `master cluster-info`");
    }
    // The endpoint is public: no client certificates are requested.
    let keys = Keys { chain: found.serving.chain, key: found.serving.key, client_authorities: Vec::new() };
    Ok((found.info, tls::config(keys)?))
}
