//! Messages to the service manager that started this process: the protocol of sd_notify(3), for systemd units with
//! `Type=notify`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Interval between progress checks of a unit without a watchdog.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The service manager that started this process. Sending never blocks and never fails: without the service manager,
/// the program continues.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The service manager of the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`). `None` without a
    /// socket: an interactive shell and a container engine set none.
    pub fn of_environment() -> Option<Self> {
        let text = |name: &str| env::var(name).ok();
        let socket = env::var_os("NOTIFY_SOCKET")?;
        let watchdog =
            watchdog(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref(), std::process::id());
        Self::at(&socket, watchdog)
            .inspect_err(|error| {
                let socket = socket.display();
                tracing::warn!(%socket, %error, "cannot reach the service manager at NOTIFY_SOCKET");
            })
            .ok()
    }

    /// The service manager at a socket: a path, or `@NAME` in the abstract namespace. `interval` is that of
    /// [`Self::alive`].
    ///
    /// # Errors
    /// If nothing listens at the socket.
    pub fn at(socket: &OsStr, interval: Option<Duration>) -> io::Result<Self> {
        Ok(Self { socket: connect(socket)?, watchdog: interval })
    }

    /// Interval between progress checks, each followed by [`Self::alive`]: half of the time after which systemd kills the
    /// process, or [`CHECK_INTERVAL`] if the unit has no watchdog.
    pub fn check_interval(&self) -> Duration {
        self.watchdog.unwrap_or(CHECK_INTERVAL)
    }

    /// The start is complete (`READY=1`). The text appears in `systemctl status`.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Changes the text in `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// The process makes progress (`WATCHDOG=1`).
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The stop has begun (`STOPPING=1`). From now on, the watchdog of systemd does not apply.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    fn send(&self, message: &str) {
        if let Err(error) = self.socket.send(message.as_bytes()) {
            tracing::debug!(%error, message, "cannot send to the service manager");
        }
    }
}

fn connect(socket: &OsStr) -> io::Result<UnixDatagram> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let datagrams = UnixDatagram::unbound()?;
    datagrams.connect_addr(&address)?;
    datagrams.set_nonblocking(true)?;
    Ok(datagrams)
}

/// Half of the watchdog's time, if the watchdog is for this process. A process inherits the variables of its parent.
fn watchdog(microseconds: Option<&str>, of: Option<&str>, own: u32) -> Option<Duration> {
    let is_for_this_process = of.is_none_or(|pid| pid.parse() == Ok(own));
    let time = microseconds?.parse().ok().filter(|time| *time > 0).map(Duration::from_micros)?;
    is_for_this_process.then_some(time / 2)
}

/// The text without line breaks, which separate variables of the protocol.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    //! Messages that arrive at a socket.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("coracle-notify-{}", std::process::id());
        let listeners = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (
                format!("@{name}").into(),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            ),
        ];
        for (address, listener) in listeners {
            let manager = ServiceManager::at(&address, None).unwrap();
            manager.ready("runs 2 pods\nWATCHDOG=1");
            manager.alive();
            manager.stopping();
            assert_eq!(received(&listener), "READY=1\nSTATUS=runs 2 pods WATCHDOG=1");
            assert_eq!(received(&listener), "WATCHDOG=1");
            assert_eq!(received(&listener), "STOPPING=1\nSTATUS=stopping");
        }
    }

    #[test]
    fn a_full_queue_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _listener = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(path.as_os_str(), None).unwrap();
        for _ in 0..10_000 {
            manager.alive();
        }
    }

    #[test]
    fn the_interval_is_half_of_the_watchdog_of_this_process() {
        let half = Some(Duration::from_secs(15));
        assert_eq!(watchdog(Some("30000000"), None, 7), half);
        assert_eq!(watchdog(Some("30000000"), Some("7"), 7), half);
        assert_eq!(watchdog(Some("30000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(Some("soon"), None, 7), None);
        assert_eq!(watchdog(None, None, 7), None);
    }
}
