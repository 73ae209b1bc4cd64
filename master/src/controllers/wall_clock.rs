//! Notices that the wall clock was set, or that the machine slept: delays count monotonic time, which does not show it.

use std::io;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The timer is set to this time, in seconds since 1970, which is in the year 9999. Only a change of the clock ends it.
const NEVER: i64 = 253_370_764_800;

/// Calls `changed` whenever the kernel has set the wall clock, until the future is dropped.
///
/// # Errors
/// If the kernel has no such timer.
pub async fn observe(mut changed: impl FnMut() + Send) -> io::Result<()> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
    #[expect(deprecated, reason = "`register` needs unsafe; an OwnedFd already guarantees what it requires")]
    let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
    loop {
        let never = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(timer.get_ref(), flags, &never) {
            Ok(_) => {}
            // The clock was set after the last read.
            Err(Errno::CANCELED) => {
                changed();
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let mut ready = timer.readable().await?;
        let mut expirations = [0; 8];
        match ready.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?)) {
            // Nothing happened.
            Err(_) => continue,
            // The read fails with ECANCELED when the clock was set.
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {}
            Ok(Err(error)) => return Err(error),
        }
        drop(ready);
        changed();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn nothing_is_observed_while_the_clock_runs() {
        let observed =
            tokio::time::timeout(Duration::from_millis(50), observe(|| panic!("the clock was set"))).await;
        assert!(observed.is_err(), "{observed:?}");
    }
}
