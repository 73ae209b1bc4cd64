//! Disks that do not answer.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::{AT_ONCE, HANGS_AFTER, run};

/// What hangs until the sender goes.
fn hang(until: &Arc<Mutex<Receiver<()>>>) -> impl FnOnce() + Send + 'static {
    let until = until.clone();
    move || {
        let _ = until.lock().unwrap().recv();
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_hangs_holds_up_no_other() {
    let (let_go, until): (Sender<()>, _) = channel();
    let until = Arc::new(Mutex::new(until));
    let hung: Vec<_> = (0..2 * AT_ONCE).map(|_| tokio::spawn(run(hang(&until)))).collect();
    let other = tokio::spawn(run(|| "done"));
    // What hangs gets its turn, and loses it, a few at a time.
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
