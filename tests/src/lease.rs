//! Reserves TCP ports that no other test on this machine uses.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

/// First of the ports. They are below the ephemeral port range of the kernel (32768 and up), so outgoing
/// connections never use them.
const FIRST: u16 = 21_000;
const LAST: u16 = 29_999;

/// A free port, reserved for this test while the value lives.
#[derive(Debug)]
pub struct Port {
    pub number: u16,
    // File lock against other test processes; released when the file is closed.
    _lock: File,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}

/// Reserves a free port.
pub fn free_port() -> Port {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let folder = PathBuf::from("/tmp/coracle-test-ports");
    fs::create_dir_all(&folder).unwrap();
    let span = LAST - FIRST;
    // Each process starts its search at a different port, so that conflicts are rare.
    let start = (std::process::id() % u32::from(span)) as u16;
    for _ in 0..span {
        let number = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % span;
        let lock = File::create(folder.join(number.to_string())).unwrap();
        if lock.try_lock().is_ok() && TcpListener::bind(("0.0.0.0", number)).is_ok() {
            return Port { number, _lock: lock };
        }
    }
    panic!("no free port between {FIRST} and {LAST}");
}
