//! Creates the rooms, their channels and their tasks.

use tokio::sync::watch;

use crate::options::Options;
use crate::report::Outbox;
use crate::server::{self, Context, Health, RootDir};
use crate::status::Board;

/// Runs a kubelet until it is told to stop; containers are left running.
///
/// # Errors
/// When its directory is taken or cannot be written.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let root_dir = RootDir::take(&options.root_dir)?;
    let (stop, stopped) = watch::channel(false);
    let outbox = Outbox::new();
    let board = Board::new(&options.node_name);
    let health = Health::new();
    tokio::spawn(board.clone().drain(outbox.clone()));
    if let Some(address) = options.healthz_address {
        let (health, stopped) = (health.clone(), stopped.clone());
        tokio::spawn(async move {
            if let Err(error) = server::serve_health(address, &health, stopped).await {
                tracing::error!(%address, %error, "cannot serve /healthz; see --healthz-port");
            }
        });
    }
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        let _ = stop.send(true);
    });
    server::serve_socket(&root_dir, &Context { board, health }, stopped).await?;
    Ok(())
}
