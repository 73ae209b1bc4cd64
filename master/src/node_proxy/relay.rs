//! Relays bytes between a client and a node. The directions are independent: data in one direction is delivered
//! even if the other one fails.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::activity::Activity;
use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

/// Buffer size per direction in bytes, in addition to the buffers of the kernel.
const BUFFER_BYTES: usize = 16 * 1024;
/// Timeout without progress after the node has closed. A laptop that is suspended briefly still receives the rest.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The end at which a direction failed.
enum CopyError {
    /// Reading from the source failed.
    From(io::Error),
    /// Writing to the destination failed.
    To(io::Error),
}

/// Relays until both sides have closed, the client is gone, or the node has closed and there is no progress.
/// `before` is data that the client has already sent. `is_read_closed` returns whether the node has closed although
/// its data was not read yet.
///
/// # Errors
/// If the client's connection fails, or the client reads nothing after the node has closed.
pub async fn relay(
    client: impl AsyncRead + AsyncWrite,
    before: Bytes,
    node: impl AsyncRead + AsyncWrite,
    is_read_closed: impl Fn() -> bool,
) -> io::Result<()> {
    let (from_client, mut to_client) = tokio::io::split(client);
    let (mut from_node, mut to_node) = tokio::io::split(node);
    let mut from_client = before.chain(from_client);
    let (activity, is_over) = (Activity::begin(), AtomicBool::new(false));
    let over = || {
        is_over.store(true, Ordering::Relaxed);
        activity.touch();
    };
    let request_headers = async {
        match copy(&mut from_client, &mut to_node, &activity).await {
            Ok(()) => {
                // The node may have closed its read side already.
                let _ = to_node.shutdown().await;
                Ok(())
            }
            Err(CopyError::From(error)) => Err(error),
            Err(CopyError::To(error)) => {
                tracing::debug!(%error, "the node closed its read side");
                over();
                // Read and discarded. Otherwise closing would reset the connection, and the client would lose data it
                // has not read yet.
                tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await.map(drop)
            }
        }
    };
    let response_headers = async {
        match copy(&mut from_node, &mut to_client, &activity).await {
            Ok(()) => {}
            Err(CopyError::From(error)) => tracing::debug!(%error, "the connection of the node failed"),
            Err(CopyError::To(error)) => return Err(error),
        }
        over();
        to_client.shutdown().await
    };
    let stuck = async {
        loop {
            activity.idle_for(IDLE_TIMEOUT).await;
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            if is_read_closed() {
                over();
            } else {
                sleep(IDLE_TIMEOUT).await;
            }
        }
    };
    tokio::select! {
        both = async { tokio::try_join!(request_headers, response_headers) } => both.map(drop),
        () = stuck => Err(io::Error::new(io::ErrorKind::TimedOut, "the node closed the connection, but its client did not")),
    }
}

/// Copies one direction until its end.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), CopyError> {
    let mut piece = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut piece).await.map_err(CopyError::From)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).await.map_err(CopyError::To)?;
        to.flush().await.map_err(CopyError::To)?;
        activity.touch();
    }
}

#[cfg(test)]
mod tests {
    //! Tests of nodes that close early and clients that do not read.
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
        is_read_closed: Arc<AtomicBool>,
        relayed: JoinHandle<io::Result<()>>,
    }

    /// The buffers between both are smaller than the data of the tests.
    fn bed(before: &'static [u8]) -> Bed {
        let ((client, near), (node, far)) = (duplex(1024), duplex(64 * 1024));
        let is_read_closed = Arc::new(AtomicBool::new(false));
        let look = is_read_closed.clone();
        let relayed =
            tokio::spawn(
                async move { relay(near, before.into(), far, || look.load(Ordering::Relaxed)).await },
            );
        Bed { client, node, is_read_closed, relayed }
    }

    #[tokio::test(start_paused = true)]
    async fn output_of_a_node_that_stopped_reading_arrives() {
        let Bed { client, mut node, relayed, .. } = bed(b"said before");
        let sent: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
        node.write_all(&sent).await.unwrap();
        // Closed with unread data from the client.
        drop(node);
        let (mut from, mut to) = tokio::io::split(client);
        let talking = tokio::spawn(async move {
            for _ in 0..100 {
                to.write_all(&[7; 1024]).await.unwrap();
            }
            to.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        tokio::time::timeout(DEADLINE, from.read_to_end(&mut received)).await.unwrap().unwrap();
        assert!(received == sent, "{} bytes arrived", received.len());
        talking.await.unwrap();
        tokio::time::timeout(DEADLINE, relayed).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn either_side_may_end_first() {
        let Bed { mut client, mut node, relayed, .. } = bed(b"said before, ");
        client.write_all(b"and after").await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = String::new();
        node.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "said before, and after");
        // The response may take arbitrarily long.
        sleep(100 * IDLE_TIMEOUT).await;
        node.write_all(b"answer").await.unwrap();
        drop(node);
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "answer");
        relayed.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn relay_ends_if_the_client_does_not_read_after_the_node_closed() {
        let mut bed = bed(b"");
        bed.node.write_all(&[0; 60_000]).await.unwrap();
        // Either side may pause arbitrarily long.
        sleep(100 * IDLE_TIMEOUT).await;
        assert!(!bed.relayed.is_finished());
        let begun = Instant::now();
        bed.is_read_closed.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(10 * IDLE_TIMEOUT, bed.relayed).await.unwrap();
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((IDLE_TIMEOUT..=3 * IDLE_TIMEOUT).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        drop((bed.client, bed.node));
    }

    #[tokio::test(start_paused = true)]
    async fn relay_ends_if_the_client_stays_open_after_the_node() {
        let mut bed = bed(b"");
        sleep(100 * IDLE_TIMEOUT).await;
        bed.node.write_all(b"all").await.unwrap();
        bed.node.shutdown().await.unwrap();
        let begun = Instant::now();
        let mut received = String::new();
        bed.client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "all");
        // A client that sends data is still connected.
        sleep(IDLE_TIMEOUT / 2).await;
        bed.client.write_all(b"more").await.unwrap();
        let ended = tokio::time::timeout(10 * IDLE_TIMEOUT, bed.relayed).await.unwrap();
        assert_eq!(ended.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), IDLE_TIMEOUT * 3 / 2);
    }
}
