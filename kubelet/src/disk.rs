//! Runs file system work on blocking threads, so that a file system that hangs blocks only its caller.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum number of work items that run at once. More threads cost memory and do not make the disk faster.
const AT_ONCE: usize = 4;
/// How long a work item counts towards [`AT_ONCE`]. One that takes longer, usually on a hanging network file
/// system, continues without being counted.
const HANGS_AFTER: Duration = Duration::from_millis(500);
/// Maximum number of blocking threads, for running and hanging work items. A pod has a few items at most and waits
/// for each. The limit allows about four per pod of a full node.
pub const THREADS: usize = 512;

static TURN: Semaphore = Semaphore::const_new(AT_ONCE);

/// Runs a function that may block on a disk.
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
        // The work never started, because the kubelet is stopping.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of file systems that hang.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::{AT_ONCE, HANGS_AFTER, run};

    /// Work that hangs until the sender is dropped.
    fn hang(until: &Arc<Mutex<Receiver<()>>>) -> impl FnOnce() + Send + 'static {
        let until = until.clone();
        move || {
            let _ = until.lock().unwrap().recv();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_disk_operation_blocks_no_other() {
        let (let_go, until): (Sender<()>, _) = channel();
        let until = Arc::new(Mutex::new(until));
        let hung: Vec<_> = (0..2 * AT_ONCE).map(|_| tokio::spawn(run(hang(&until)))).collect();
        let other = tokio::spawn(run(|| "done"));
        // Hanging work starts in groups of `AT_ONCE`, each until `HANGS_AFTER`.
        for _ in 0..2 {
            tokio::task::yield_now().await;
            tokio::time::advance(HANGS_AFTER).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(other.await.unwrap(), "done");
        assert!(hung.iter().all(|hung| !hung.is_finished()));
        drop(let_go);
        for hung in hung {
            hung.await.unwrap();
        }
    }
}
