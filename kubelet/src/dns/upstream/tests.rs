//! Tests of the choice of a server, and of the retries with TCP and without EDNS.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::SocketAddr;
use std::time::Instant;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::super::cache::Key;
use super::super::wire::tests::message;
use super::{ForwardError, Upstreams};

fn key() -> Key {
    let name = "a.example.".parse().unwrap();
    Key { name, kind: RecordType::A, dnssec_ok: false, checking_disabled: false }
}

/// A server that answers over UDP and TCP. `answer` gets the query, and whether it came over TCP.
pub(crate) async fn serve(
    tasks: &mut JoinSet<()>,
    answer: impl Fn(&Message, bool) -> Message + Clone + Send + 'static,
) -> SocketAddr {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    let respond = move |bytes: &[u8], is_tcp| {
        let query = Message::from_vec(bytes).unwrap();
        let mut response = answer(&query, is_tcp);
        response.metadata.id = query.metadata.id;
        response.to_vec().unwrap()
    };
    let over_tcp = respond.clone();
    tasks.spawn(async move {
        loop {
            let mut buffer = [0; 4096];
            let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
            // A forged response comes first.
            let response = respond(&buffer[..length], false);
            let mut forged = response.clone();
            forged[0] ^= 0xff;
            udp.send_to(&forged, client).await.unwrap();
            udp.send_to(&response, client).await.unwrap();
        }
    });
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let mut query = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut query).await.unwrap();
            let response = over_tcp(&query, true);
            stream.write_u16(response.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&response).await.unwrap();
        }
    });
    address
}

async fn addresses(upstreams: &Upstreams) -> usize {
    let response = upstreams.ask(&key()).await.unwrap();
    Message::from_vec(response.bytes()).unwrap().answers.len()
}

#[tokio::test]
async fn a_truncated_response_is_requested_again_over_tcp() {
    let (mut tasks, upstreams) = (JoinSet::new(), Upstreams::new());
    let server = serve(&mut tasks, |_, is_tcp| {
        let mut response = message("a.example.", if is_tcp { 100 } else { 0 }, 60);
        response.metadata.truncation = !is_tcp;
        response
    });
    assert!(upstreams.set(vec![server.await]));
    assert_eq!(addresses(&upstreams).await, 100);
}

#[tokio::test]
async fn a_server_without_edns_is_asked_without_it() {
    let (mut tasks, upstreams) = (JoinSet::new(), Upstreams::new());
    let server = serve(&mut tasks, |query, _| {
        let mut response = message("a.example.", 1, 60);
        if query.edns.is_some() {
            response.answers.clear();
            response.metadata.response_code = ResponseCode::FormErr;
        }
        response
    });
    upstreams.set(vec![server.await]);
    assert_eq!(addresses(&upstreams).await, 1);
}

#[tokio::test]
async fn the_records_of_a_truncated_response_are_used_if_tcp_fails() {
    // No program listens at the port over TCP.
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (server, key) = (udp.local_addr().unwrap(), key());
    for (answers, is_usable) in [(3, true), (0, false)] {
        let respond = async {
            let mut buffer = [0; 512];
            let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
            let mut response = message("a.example.", answers, 60);
            response.metadata.id = Message::from_vec(&buffer[..length]).unwrap().metadata.id;
            response.metadata.truncation = true;
            udp.send_to(&response.to_vec().unwrap(), client).await.unwrap();
        };
        let (response, ()) = tokio::join!(super::exchange(server, &key), respond);
        assert_eq!(response.is_ok_and(|response| response.is_truncated()), is_usable);
    }
}

#[tokio::test]
async fn a_server_that_answers_an_unknown_query_with_a_header_only_is_asked_without_edns() {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (server, key) = (udp.local_addr().unwrap(), key());
    let respond = async {
        let mut buffer = [0; 512];
        let (_, client) = udp.recv_from(&mut buffer).await.unwrap();
        // QR, RD and FORMERR, without a question.
        let header = [buffer[0], buffer[1], 0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        udp.send_to(&header, client).await.unwrap();
        let (length, client) = udp.recv_from(&mut buffer).await.unwrap();
        let query = Message::from_vec(&buffer[..length]).unwrap();
        assert!(query.edns.is_none());
        let mut response = message("a.example.", 1, 60);
        response.metadata.id = query.metadata.id;
        udp.send_to(&response.to_vec().unwrap(), client).await.unwrap();
    };
    let (response, ()) = tokio::join!(super::exchange(server, &key), respond);
    assert_eq!(response.unwrap().code(), 0);
}

#[tokio::test]
async fn the_records_of_a_truncated_response_are_used_if_tcp_is_silent() {
    let (mut tasks, udp) = (JoinSet::new(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let server = udp.local_addr().unwrap();
    // It accepts connections and never answers.
    let _tcp = TcpListener::bind(server).await.unwrap();
    tasks.spawn(async move {
        let mut buffer = [0; 512];
        let (_, client) = udp.recv_from(&mut buffer).await.unwrap();
        let mut response = message("a.example.", 1, 60);
        (response.metadata.id, response.metadata.truncation) =
            (u16::from_be_bytes([buffer[0], buffer[1]]), true);
        udp.send_to(&response.to_vec().unwrap(), client).await.unwrap();
    });
    let started = Instant::now();
    assert!(super::exchange(server, &key()).await.unwrap().is_truncated());
    assert!(started.elapsed() < super::ATTEMPT_TIMEOUT * 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_next_server_answers_for_one_that_fails_or_is_silent() {
    let (mut tasks, upstreams) = (JoinSet::new(), Upstreams::new());
    let failing = serve(&mut tasks, |_, _| {
        let mut response = message("a.example.", 0, 60);
        response.metadata.response_code = ResponseCode::ServFail;
        response
    });
    let failing = failing.await;
    let good = serve(&mut tasks, |_, _| message("a.example.", 2, 60)).await;
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().map(|address| (silent, address)).unwrap();
    upstreams.set(vec![failing, silent.1, good]);
    assert_eq!(addresses(&upstreams).await, 2);
    assert_eq!(upstreams.ordered(Instant::now()), [failing, good, silent.1]);
    assert_eq!(upstreams.ordered(Instant::now() + super::FAILED_FOR), [failing, silent.1, good]);
}

#[tokio::test]
async fn an_error_of_all_servers_is_passed_on() {
    let (mut tasks, upstreams) = (JoinSet::new(), Upstreams::new());
    assert!(matches!(upstreams.ask(&key()).await, Err(ForwardError::NoServer)));
    let server = serve(&mut tasks, |_, _| {
        let mut response = message("a.example.", 0, 60);
        response.metadata.response_code = ResponseCode::Refused;
        response
    });
    upstreams.set(vec![server.await]);
    assert_eq!(upstreams.ask(&key()).await.unwrap().code(), super::REFUSED);
}
