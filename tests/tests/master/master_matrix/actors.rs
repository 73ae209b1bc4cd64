//! Clients of the matrix: nodes, and clients that are not nodes.

use std::time::Duration;

use futures_util::future::join_all;
use tests::certificates::{EXPIRED, GOOD, Pair, Signer};
use tests::trusting;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::master_matrix::bed::Bed;
use crate::master_matrix::questions::Question;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The node with that name.
    Node(&'static str),
    /// An authenticated client that is not a node.
    Known,
    /// An anonymous client.
    Nobody,
}

/// How a client connects.
enum Way {
    /// A regular HTTPS client.
    Client(reqwest::Client),
    /// Without TLS.
    Plain,
    /// With TLS 1.1 (2006).
    Old,
}

/// A client of the matrix.
pub struct Actor {
    /// Name in the table.
    pub title: &'static str,
    /// Its identity, or `None` if the server must reject its connection or credentials.
    pub is: Option<Who>,
    way: Way,
    port: u16,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Permitted, with any other status code.
    Allowed,
    /// 401 or 403.
    Refused,
    /// No connection.
    Unreached,
}

impl Actor {
    /// Sends a request. Returns its result.
    pub async fn send_question(&self, question: &Question) -> Answer {
        match &self.way {
            Way::Client(client) => self.sends(client, question).await,
            Way::Plain => {
                let request = format!("{} {} HTTP/1.1\r\nhost: x\r\n\r\n", question.method, question.path);
                let answer = self.writes(request.as_bytes()).await;
                let is_http = answer.windows(5).any(|part| part == b"HTTP/");
                if is_http { Answer::Allowed } else { Answer::Unreached }
            }
            Way::Old => {
                let answer = self.writes(HELLO_1_1).await;
                // A fatal alert: protocol_version.
                assert!(matches!(answer[..], [0x15, 3, _, 0, 2, 2, 70, ..]), "{answer:?}");
                Answer::Unreached
            }
        }
    }

    async fn sends(&self, client: &reqwest::Client, question: &Question) -> Answer {
        let url = format!("https://127.0.0.1:{}{}", self.port, question.path);
        let mut request = client.request(question.method.clone(), url).timeout(PATIENCE);
        if let Some(body) = &question.body {
            let kind = if question.verb == "patch" { "merge-patch+json" } else { "json" };
            request = request.header("content-type", format!("application/{kind}")).body(body.to_string());
        }
        match request.send().await {
            Err(error) if error.is_timeout() => panic!("{} {question}: {error:?}", self.title),
            Err(_) => Answer::Unreached,
            Ok(response) => match response.status().as_u16() {
                401 | 403 => Answer::Refused,
                code @ (200..=299 | 400 | 404 | 405 | 409 | 415 | 422) => {
                    // A watch stays open; all other responses have been read completely.
                    drop((code, response));
                    Answer::Allowed
                }
                code => panic!("{} {question}: {code} {:?}", self.title, response.text().await),
            },
        }
    }

    /// Sends bytes. Returns the response until the connection closes.
    async fn writes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let mut answer = Vec::new();
        let talk = async {
            // Ignore the error: the server may have closed the connection.
            let _ = stream.write_all(bytes).await;
            let _ = stream.read_to_end(&mut answer).await;
        };
        tokio::time::timeout(PATIENCE, talk).await.unwrap();
        answer
    }
}

/// A ClientHello of TLS 1.1, valid except for the version.
const HELLO_1_1: &[u8] = &[
    0x16, 3, 1, 0, 77, // A handshake record.
    1, 0, 0, 73, 3, 2, // ClientHello, version 1.1.
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, // Random.
    0, // No session ID.
    0, 8, 0xc0, 0x2b, 0xc0, 0x09, 0xc0, 0x13, 0, 0x2f, // Cipher suites of TLS 1.2 and 1.1.
    1, 0, // No compression.
    0, 24, // Extensions:
    0, 10, 0, 6, 0, 4, 0, 23, 0, 24, // supported groups,
    0, 11, 0, 2, 1, 0, // point formats,
    0, 13, 0, 4, 0, 2, 4, 3, // signature algorithms.
];

/// All clients.
pub async fn all(bed: &Bed) -> Vec<Actor> {
    let signer = Signer::of_master(&bed.master.data_dir());
    let node = |name: &str| format!("/O=system:nodes/CN={name}");
    let signed = |subject: &str| signer.signs(subject, "clientAuth", "DNS:x", GOOD);
    let stock = signed(&node("system:node:a"));
    let ours = signed(&node("kubelet:a"));
    let other = signed(&node("system:node:b"));
    let revoked = signed(&node("system:node:gone"));
    join_all([
        bed.is_known_by("a", &[&stock, &ours]),
        bed.is_known_by("b", &[&other]),
        bed.is_known_by("gone", &[&revoked]),
    ])
    .await;
    bed.deletes("/api/v1/nodes/gone").await;
    let expired = signer.signs(&node("system:node:a"), "clientAuth", "DNS:x", EXPIRED);
    let elsewhere = Signer::stranger().signs(&node("system:node:a"), "clientAuth", "DNS:x", GOOD);
    let authority = bed.master.admin().unwrap().authority;
    let with = |pair: Option<&Pair>| {
        let own = pair.map(|pair| (pair.certificate.as_str(), pair.key.as_str()));
        Way::Client(trusting(&authority, own).unwrap())
    };
    let port = bed.master.port.to_string().parse().unwrap();
    [
        ("system:node:a", Some(Who::Node("a")), with(Some(&stock))),
        ("kubelet:a", Some(Who::Node("a")), with(Some(&ours))),
        ("system:node:b", Some(Who::Node("b")), with(Some(&other))),
        ("a certificate of nobody's node", Some(Who::Known), with(Some(&signed("/CN=jane")))),
        ("a node's name without its group", Some(Who::Known), with(Some(&signed("/CN=system:node:a")))),
        ("the group without a node's name", Some(Who::Known), with(Some(&signed(&node("a"))))),
        ("a node whose Node was deleted", Some(Who::Known), with(Some(&revoked))),
        ("node a by a key that is not its own", Some(Who::Known), with(Some(&signed(&node("kubelet:a"))))),
        ("no certificate", Some(Who::Nobody), with(None)),
        ("an expired certificate", None, with(Some(&expired))),
        ("a certificate of another authority", None, with(Some(&elsewhere))),
        ("plain HTTP", None, Way::Plain),
        ("TLS 1.1", None, Way::Old),
    ]
    .into_iter()
    .map(|(title, is, way)| Actor { title, is, way, port })
    .collect()
}
