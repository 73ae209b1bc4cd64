//! A small HTTP server for the URL pod source. It serves one body with an ETag, which a test may change or break.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server on its own port. Dropping the value stops it.
#[derive(Debug)]
pub struct Server {
    /// URL of the body.
    pub url: String,
    shared: Arc<Mutex<Shared>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    status: u16,
    body: String,
    version: u64,
    requests: Vec<Request>,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Headers of the request, with their names in lower case.
    pub headers: HashMap<String, String>,
    /// Status code of the server's response.
    pub answer: u16,
}

impl Server {
    /// Starts serving the body with status 200.
    pub async fn start(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pods.yaml", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new(Shared { status: 200, body: body.to_owned(), ..Shared::default() }));
        let accept = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, accept.clone()));
            }
        });
        Self { url, shared, task }
    }

    /// Changes the status code and body of future responses.
    pub fn serve(&self, status: u16, body: &str) {
        let mut shared = self.shared.lock().unwrap();
        shared.status = status;
        body.clone_into(&mut shared.body);
        shared.version += 1;
    }

    /// Returns the requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers one request and closes the connection.
async fn answer(mut stream: TcpStream, shared: Arc<Mutex<Shared>>) {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&piece[..read]),
        }
    }
    let reply = reply(&String::from_utf8_lossy(&head), &mut shared.lock().unwrap());
    // Ignore the error: the client may have disconnected.
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn reply(head: &str, shared: &mut Shared) -> String {
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        .collect();
    let etag = format!("\"{}\"", shared.version);
    let unchanged = shared.status == 200 && headers.get("if-none-match") == Some(&etag);
    let (answer, body) = if unchanged { (304, "") } else { (shared.status, shared.body.as_str()) };
    let reply = format!(
        "HTTP/1.1 {answer} x\r\nETag: {etag}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    shared.requests.push(Request { headers, answer });
    reply
}
