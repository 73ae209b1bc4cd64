//! File locks, which the kernel releases when the process dies.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait until a process that is ending releases its lock. The kernel closes the files of a killed
/// process within some ten milliseconds, or later on a busy machine.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between attempts. It is somewhat longer than an ending process needs to release its other resources,
/// such as ports.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Locks a file until it is closed, and waits up to `within` for another process to release it. Returns false if the
/// file is still locked then. Blocks.
///
/// # Errors
/// If locking fails.
pub fn lock(file: &File, within: Duration) -> io::Result<bool> {
    let end = Instant::now() + within;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(RETRY_INTERVAL),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs::File;
    use std::thread;
    use std::time::Duration;

    use super::{LOCK_TIMEOUT, lock};

    #[test]
    fn lock_waits_for_an_ending_process_only() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let open = || File::open(&path).unwrap();
        let first = open();
        assert!(lock(&first, Duration::ZERO).unwrap());
        assert!(!lock(&open(), Duration::from_millis(1)).unwrap());
        let (second, ready) = (open(), std::sync::Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                ready.wait();
                drop(first);
            });
            ready.wait();
            assert!(lock(&second, LOCK_TIMEOUT).unwrap());
        });
    }
}
