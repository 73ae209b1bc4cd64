//! Records the TLS alert that ends a connection. With TLS 1.3 a member rejects a client certificate after the
//! handshake. The HTTP/2 library reduces the resulting I/O error to a text, so the alert must be recorded below it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The alert that a connection received, if any.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsAlert(Arc<OnceLock<AlertDescription>>);

impl TlsAlert {
    /// True after the member has rejected the connection.
    pub(super) fn is_received(&self) -> bool {
        self.0.get().is_some()
    }

    fn record(&self, error: &io::Error) {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = of_tls {
            // Only the first alert is of interest: it ends the connection.
            let _ = self.0.set(*alert);
        }
    }
}

/// A stream that records the alert of its connection.
#[derive(Debug)]
pub(super) struct RecordAlert<T> {
    pub(super) stream: T,
    pub(super) alert: TlsAlert,
}

impl<T> RecordAlert<T> {
    fn recorded<R>(&self, result: io::Result<R>) -> Poll<io::Result<R>> {
        Poll::Ready(result.inspect_err(|error| self.alert.record(error)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for RecordAlert<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, into));
        self.recorded(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for RecordAlert<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.recorded(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.recorded(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        self.recorded(shut_down)
    }
}

#[cfg(test)]
mod tests {
    //! Errors of connections.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A stream that fails with an error of TLS.
    struct Failing(rustls::Error);

    impl AsyncRead for Failing {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, self.0.clone())))
        }
    }

    #[tokio::test]
    async fn only_an_alert_is_recorded() {
        for (error, is_alert) in [
            (rustls::Error::AlertReceived(AlertDescription::CertificateRequired), true),
            (rustls::Error::General("received fatal alert".to_owned()), false),
        ] {
            let alert = TlsAlert::default();
            let mut stream = RecordAlert { stream: Failing(error), alert: alert.clone() };
            assert!(!alert.is_received());
            stream.read_u8().await.unwrap_err();
            assert_eq!(alert.is_received(), is_alert);
        }
    }
}
