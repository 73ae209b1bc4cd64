//! A proxy between a kubelet and its engine that can make single requests hang.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// A proxy socket that forwards everything to the engine, except requests that hang.
#[derive(Debug)]
pub struct Wire {
    socket: PathBuf,
    hang: Arc<watch::Sender<Vec<String>>>,
    hung: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// Listens at `socket` and forwards to the engine at `address` (`unix:///...`).
    pub fn to(address: &str, socket: &Path) -> Self {
        let engine = PathBuf::from(address.strip_prefix("unix://").expect("an engine at a Unix socket"));
        let listener = UnixListener::bind(socket).unwrap();
        let hang = Arc::new(watch::Sender::new(Vec::new()));
        let hung = Arc::<Mutex<Vec<String>>>::default();
        let (hanging, noted) = (hang.clone(), hung.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, engine.clone(), hanging.clone(), noted.clone()));
            }
        });
        Self { socket: socket.to_owned(), hang, hung, task }
    }

    /// Path of the proxy socket for the kubelet.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// From now on, leaves requests without a response if their first line contains the text.
    pub fn hang(&self, text: &str) {
        self.hang.send_modify(|texts| texts.push(text.to_owned()));
    }

    /// Stops leaving requests without a response. Closes the connections of requests that hang.
    pub fn mend(&self) {
        self.hang.send_replace(Vec::new());
    }

    /// Returns the first lines of the requests that hung so far.
    pub fn hung(&self) -> Vec<String> {
        self.hung.lock().unwrap().clone()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    client: UnixStream,
    engine: PathBuf,
    hang: Arc<watch::Sender<Vec<String>>>,
    hung: Arc<Mutex<Vec<String>>>,
) {
    let Ok(engine) = UnixStream::connect(engine).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_engine, to_engine) = engine.into_split();
    let requests = async {
        let (mut from, mut to) = (from_client, to_engine);
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            // The kubelet writes requests one by one, and each starts with a new write.
            let first = String::from_utf8_lossy(&piece[..read]).lines().next().unwrap_or_default().to_owned();
            if first.ends_with("HTTP/1.1") && hang.borrow().iter().any(|text| first.contains(text)) {
                hung.lock().unwrap().push(first);
                let _ = hang.subscribe().wait_for(Vec::is_empty).await;
                return;
            }
            if to.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
        std::future::pending::<()>().await; // The response may still be on its way.
    };
    tokio::select! {
        () = requests => {}
        () = copy(from_engine, to_client) => {}
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}
