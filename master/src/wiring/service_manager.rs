//! Reports the state of the master to the service manager (a systemd unit with `Type=notify`).

use std::net::SocketAddr;

use command::ServiceManager;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Reports readiness, then progress, then the stop. Runs on the runtime of the server.
///
/// Each progress message means that both runtimes execute tasks. A store that does not answer is no reason for a
/// restart: `/readyz` reports it, and the master continues when the store is back.
pub(super) async fn report(
    manager: ServiceManager,
    address: SocketAddr,
    computing: Handle,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tick = tokio::time::interval(manager.check_interval());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    manager.ready(&format!("serves the Kubernetes API at {address}"));
    loop {
        let progress = async {
            tick.tick().await;
            if computing.spawn(async {}).await.is_ok() {
                manager.alive();
            }
        };
        tokio::select! {
            () = progress => {}
            // Without a sender, the master has stopped.
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    manager.stopping();
    // The task does not end before the master.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    //! Messages of a master with a watchdog.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn messages_stop_while_the_controllers_are_stuck() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let manager = ServiceManager::at(path.as_os_str(), Some(Duration::from_millis(20))).unwrap();
        let computing =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (stop, stopped) = watch::channel(false);
        let address = "127.0.0.1:6443".parse().unwrap();
        tokio::spawn(report(manager, address, computing.handle().clone(), stopped));
        let listening = tokio::task::spawn_blocking(move || {
            assert_eq!(received(&listener), "READY=1\nSTATUS=serves the Kubernetes API at 127.0.0.1:6443");
            assert_eq!(received(&listener), "WATCHDOG=1");
            listener
        });
        let listener = listening.await.unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        computing.spawn(async move { held.recv() });
        let listener = tokio::task::spawn_blocking(move || {
            let mut buffer = [0; 256];
            // Messages that were sent before arrive first.
            while listener.recv(&mut buffer).is_ok() {}
            listener
        });
        let listener = listener.await.unwrap();
        release.send(()).unwrap();
        let listener = tokio::task::spawn_blocking(move || {
            assert_eq!(received(&listener), "WATCHDOG=1");
            listener
        });
        let listener = listener.await.unwrap();
        stop.send_replace(true);
        tokio::task::spawn_blocking(move || while !received(&listener).starts_with("STOPPING=1") {})
            .await
            .unwrap();
        computing.shutdown_background();
    }
}
