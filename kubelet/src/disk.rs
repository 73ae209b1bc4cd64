//! Work on files, away from the threads that everything else runs on: a file system that does not answer holds up nobody
//! but who asked for it.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Pieces of work at once: each thread keeps memory of its own for a while, and a disk is not faster for more of them.
const AT_ONCE: usize = 4;
/// A piece of work that takes longer hangs, on a network file system as a rule, and counts no more as one of
/// [`AT_ONCE`]. It goes on for as long as it wants to.
const HANGS_AFTER: Duration = Duration::from_millis(500);
/// Threads in all, none while nothing is to be done: those at work, and what may hang meanwhile. A pod has a few pieces of
/// work under way at most, and begins none again before it has ended, so that this is some four a pod of a full node.
pub const THREADS: usize = 512;

static TURN: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does something where it may wait for a disk.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let turn = TURN.acquire().await;
    let mut at_work = spawn_blocking(work);
    let in_time = timeout(HANGS_AFTER, &mut at_work).await;
    drop(turn);
    let done = match in_time {
        Ok(done) => done,
        Err(_) => at_work.await,
    };
    match done {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // It never began, because the kubelet is stopping.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
