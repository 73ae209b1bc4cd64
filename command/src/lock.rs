//! Locks that one process has at a time, and that the kernel lets go of when it dies.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long one waits for whoever has a lock and is ending: a process that was killed keeps its files for some ten milliseconds, on
/// a busy machine for longer.
pub const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// Somewhat longer than it takes to let go of the rest after the lock, as of ports.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Whether a file is this process's alone from now on, for as long as it is open; somebody else is given that long to let go of it.
/// Blocks.
///
/// # Errors
/// When it cannot be locked at all.
pub fn lock(file: &File, within: Duration) -> io::Result<bool> {
    let end = Instant::now() + within;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(LOOK_AGAIN),
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

    use super::{ENDS_WITHIN, lock};

    #[test]
    fn who_ends_is_waited_for_and_who_stays_is_not() {
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
            assert!(lock(&second, ENDS_WITHIN).unwrap());
        });
    }
}
