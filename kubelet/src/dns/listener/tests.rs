//! Tests of both transports on real sockets, and of the limits for floods.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::super::resolver::tests::{encoded, resolver};
use super::{Listener, MAX_CONNECTIONS_PER_CLIENT, MAX_WAITING_PER_CLIENT};

const KUBERNETES: &str = "kubernetes.default.svc.cluster.local.";

/// A server whose only upstream never answers.
async fn server(tasks: &mut JoinSet<()>) -> (SocketAddr, UdpSocket) {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let resolver = Arc::new(resolver());
    resolver.set_upstreams(vec![silent.local_addr().unwrap()]);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address();
    tasks.spawn(async move { listener.serve(resolver, Arc::default()).await.unwrap() });
    (address, silent)
}

async fn client(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server).await.unwrap();
    socket
}

async fn received(socket: &UdpSocket) -> Message {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).await.unwrap();
    Message::from_vec(&buffer[..length]).unwrap()
}

async fn over_tcp(stream: &mut TcpStream) -> Message {
    let mut response = vec![0; stream.read_u16().await.unwrap().into()];
    stream.read_exact(&mut response).await.unwrap();
    Message::from_vec(&response).unwrap()
}

#[tokio::test]
async fn queries_are_answered_over_udp() {
    let mut tasks = JoinSet::new();
    let (server, _silent) = server(&mut tasks).await;
    let socket = client(server).await;
    socket.send(b"nonsense").await.unwrap();
    socket.send(&encoded(KUBERNETES, RecordType::A)).await.unwrap();
    assert_eq!(received(&socket).await.answers.len(), 1);
}

#[tokio::test]
async fn several_queries_of_a_connection_are_answered_in_their_order() {
    let mut tasks = JoinSet::new();
    let (server, _silent) = server(&mut tasks).await;
    let mut stream = TcpStream::connect(server).await.unwrap();
    let mut queries = Vec::new();
    for kind in [RecordType::A, RecordType::AAAA] {
        let query = encoded(KUBERNETES, kind);
        queries.extend_from_slice(&u16::try_from(query.len()).unwrap().to_be_bytes());
        queries.extend_from_slice(&query);
    }
    stream.write_all(&queries).await.unwrap();
    assert_eq!(over_tcp(&mut stream).await.queries[0].query_type, RecordType::A);
    assert_eq!(over_tcp(&mut stream).await.queries[0].query_type, RecordType::AAAA);
    stream.write_all(&[0xff, 0xff, 0, 0]).await.unwrap();
    assert!(stream.read_u8().await.is_err(), "a query that is too long ends the connection");
}

#[tokio::test]
async fn questions_that_wait_for_a_silent_server_do_not_delay_others() {
    let mut tasks = JoinSet::new();
    let (server, silent) = server(&mut tasks).await;
    let socket = client(server).await;
    for number in 0..2 * MAX_WAITING_PER_CLIENT {
        socket.send(&encoded(&format!("n{number}.example."), RecordType::A)).await.unwrap();
    }
    socket.send(&encoded(KUBERNETES, RecordType::A)).await.unwrap();
    let first = received(&socket).await;
    assert_eq!(first.metadata.response_code, ResponseCode::NoError);
    assert_eq!(first.answers.len(), 1);
    let mut buffer = [0; 4096];
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..MAX_WAITING_PER_CLIENT {
        let length = silent.recv(&mut buffer).await.unwrap();
        names.insert(Message::from_vec(&buffer[..length]).unwrap().queries[0].name.to_string());
    }
    assert_eq!(names.len(), MAX_WAITING_PER_CLIENT);
}

#[tokio::test]
async fn a_client_has_a_limited_number_of_connections() {
    let mut tasks = JoinSet::new();
    let (server, _silent) = server(&mut tasks).await;
    let mut open = Vec::new();
    for _ in 0..MAX_CONNECTIONS_PER_CLIENT {
        open.push(TcpStream::connect(server).await.unwrap());
    }
    let mut rejected = TcpStream::connect(server).await.unwrap();
    assert!(rejected.read_u8().await.is_err(), "it is closed");
    let query = encoded(KUBERNETES, RecordType::A);
    let stream = open.last_mut().unwrap();
    stream.write_u16(query.len().try_into().unwrap()).await.unwrap();
    stream.write_all(&query).await.unwrap();
    assert_eq!(over_tcp(stream).await.answers.len(), 1);
}
