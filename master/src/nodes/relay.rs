//! Bytes of a client and a node, each direction by itself: what one of them takes no more of keeps nothing of what it has said
//! from the other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::activity::Activity;
use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

/// What waits in each direction, beside what the kernel keeps.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long nothing may move once the node has ended: a laptop that sleeps for a moment still gets what is left.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which side a direction ended at, too early.
enum Broken {
    /// Nothing more comes of it.
    From(io::Error),
    /// It takes no more.
    To(io::Error),
}

/// Carries them until both have said all, the client is gone, or the node has ended and nothing moves; `before` is what the
/// client has said already. `has_ended` looks whether the node has, though what it said before is not taken yet.
///
/// # Errors
/// When the client's connection breaks, or it takes nothing of what a node said that has ended.
pub async fn relay(
    client: impl AsyncRead + AsyncWrite,
    before: Bytes,
    node: impl AsyncRead + AsyncWrite,
    has_ended: impl Fn() -> bool,
) -> io::Result<()> {
    let (from_client, mut to_client) = tokio::io::split(client);
    let (mut from_node, mut to_node) = tokio::io::split(node);
    let mut from_client = before.chain(from_client);
    let (activity, is_over) = (Activity::begin(), AtomicBool::new(false));
    let over = || {
        is_over.store(true, Ordering::Relaxed);
        activity.moved();
    };
    let there = async {
        match copy(&mut from_client, &mut to_node, &activity).await {
            Ok(()) => {
                // One that takes no more has nothing against it.
                let _ = to_node.shutdown().await;
                Ok(())
            }
            Err(Broken::From(error)) => Err(error),
            Err(Broken::To(error)) => {
                tracing::debug!(%error, "a node takes no more");
                over();
                // Read and thrown away: or the kernel would throw away what the client has not read yet.
                tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await.map(drop)
            }
        }
    };
    let back = async {
        match copy(&mut from_node, &mut to_client, &activity).await {
            Ok(()) => {}
            Err(Broken::From(error)) => tracing::debug!(%error, "a node ended early"),
            Err(Broken::To(error)) => return Err(error),
        }
        over();
        to_client.shutdown().await
    };
    let stuck = async {
        loop {
            activity.ceased(PATIENCE).await;
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if has_ended() {
                over();
            } else {
                sleep(PATIENCE).await;
            }
        }
    };
    tokio::select! {
        both = async { tokio::try_join!(there, back) } => both.map(drop),
        () = stuck => Err(io::Error::new(io::ErrorKind::TimedOut, "the node has ended, and its client does not")),
    }
}

/// Carries one direction to its end.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), Broken> {
    let mut piece = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut piece).await.map_err(Broken::From)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).await.map_err(Broken::To)?;
        to.flush().await.map_err(Broken::To)?;
        activity.moved();
    }
}

#[cfg(test)]
mod tests {
    //! Nodes that end early and clients that do not read.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    struct Bed {
        client: DuplexStream,
        node: DuplexStream,
        has_ended: Arc<AtomicBool>,
        relayed: JoinHandle<io::Result<()>>,
    }

    /// Between both stands less than what is said here.
    fn bed(before: &'static [u8]) -> Bed {
        let ((client, near), (node, far)) = (duplex(1024), duplex(64 * 1024));
        let has_ended = Arc::new(AtomicBool::new(false));
        let look = has_ended.clone();
        let relayed =
            tokio::spawn(
                async move { relay(near, before.into(), far, || look.load(Ordering::Relaxed)).await },
            );
        Bed { client, node, has_ended, relayed }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_node_said_arrives_though_it_takes_no_more() {
        let Bed { client, mut node, relayed, .. } = bed(b"said before");
        let said: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
        node.write_all(&said).await.unwrap();
        // With what the client said unread.
        drop(node);
        let (mut from, mut to) = tokio::io::split(client);
        let talking = tokio::spawn(async move {
            for _ in 0..100 {
                to.write_all(&[7; 1024]).await.unwrap();
            }
            to.shutdown().await.unwrap();
        });
        let mut heard = Vec::new();
        tokio::time::timeout(DEADLINE, from.read_to_end(&mut heard)).await.unwrap().unwrap();
        assert!(heard == said, "{} bytes arrived", heard.len());
        talking.await.unwrap();
        tokio::time::timeout(DEADLINE, relayed).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn either_side_may_end_first() {
        let Bed { mut client, mut node, relayed, .. } = bed(b"said before, ");
        client.write_all(b"and after").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        node.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "said before, and after");
        // The answer may take its time.
        sleep(100 * PATIENCE).await;
        node.write_all(b"answer").await.unwrap();
        drop(node);
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "answer");
        relayed.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_once_the_node_has_ended() {
        let mut bed = bed(b"");
        bed.node.write_all(&[0; 60_000]).await.unwrap();
        // It may be thinking, and so may the node.
        sleep(100 * PATIENCE).await;
        assert!(!bed.relayed.is_finished());
        let begun = Instant::now();
        bed.has_ended.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(10 * PATIENCE, bed.relayed).await.unwrap();
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((PATIENCE..=3 * PATIENCE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        drop((bed.client, bed.node));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_end_is_given_up_once_the_node_has_ended() {
        let mut bed = bed(b"");
        sleep(100 * PATIENCE).await;
        bed.node.write_all(b"all").await.unwrap();
        bed.node.shutdown().await.unwrap();
        let begun = Instant::now();
        let mut heard = String::new();
        bed.client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "all");
        // Who still says something is still there.
        sleep(PATIENCE / 2).await;
        bed.client.write_all(b"more").await.unwrap();
        let ended = tokio::time::timeout(10 * PATIENCE, bed.relayed).await.unwrap();
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), PATIENCE * 3 / 2);
    }
}
