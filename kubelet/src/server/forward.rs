//! Connections from a client to ports of a pod: streams of SPDY, as kubectl has them, in a WebSocket or not; or one WebSocket
//! with two channels a port, the second for what went wrong.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use apiserver::Status;
use apiserver::spdy::{Upgrade, pairs};
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use http::request::Parts;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Context;
use super::channels::Connection;
use super::container::ShownPod;
use super::logs::Pairs;
use super::spdy;
use super::upgrade::Refused;
use super::websocket::{closing, frame, payloads, upgrade};
use crate::runtime::Runtime;

/// The protocols of forwarded ports over a WebSocket, the one whose frames are bytes as they are last.
const PROTOCOLS: [&str; 2] = [SPDY_WITHIN, "v4.channel.k8s.io"];
/// SPDY whose bytes are in the messages of a WebSocket.
const SPDY_WITHIN: &str = "SPDY/3.1+portforward.k8s.io";
/// Most ports of one WebSocket: a channel is a byte, a port has two of them, and the last one is another protocol's.
const MOST_PORTS: usize = 127;
/// Messages that wait for whoever reads them, a port or the client: enough to keep both busy.
const WAITING: usize = 16;
/// Bytes of a connection that wait in one direction, and that are sent at once.
const PIECE: usize = 32 * 1024;

/// Which pod a path names.
#[derive(Debug, Deserialize)]
pub struct Target {
    namespace: String,
    #[serde(alias = "name")]
    pod: String,
}

/// `.../pods/{name}/portforward` and `/portForward/{namespace}/{pod}`.
pub async fn forward(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Refused> {
    let shown = ShownPod::find(context.board.store(), &target.namespace, &target.pod)?;
    let id = shown.any_running()?;
    if Upgrade::is_asked(&parts.headers) {
        let upgrade = Upgrade::read(&mut parts, pairs::PROTOCOLS)?;
        return Ok(upgrade.serve(pairs::admit, move |session| spdy::forward(session, context.runtime, id)));
    }
    let upgrade = upgrade(&mut parts, &PROTOCOLS).await?;
    if upgrade.selected_protocol().is_some_and(|agreed| agreed.as_bytes() == SPDY_WITHIN.as_bytes()) {
        return Ok(upgrade.on_upgrade(move |socket| spdy::forward_within(socket, context.runtime, id)));
    }
    let ports = ports(&query)?;
    Ok(upgrade.on_upgrade(move |socket| serve(socket, ports, context.runtime, id)))
}

/// The ports that a query asks for, in order.
fn ports(query: &Pairs) -> Result<Vec<u16>, Status> {
    let texts = query.iter().filter(|(name, _)| matches!(name.as_str(), "port" | "ports"));
    let ports: Result<Vec<u16>, Status> = texts
        .flat_map(|(_, list)| list.split(','))
        .map(|text| {
            let port = text.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| Status::bad_request(format!("{text:?} is no port, write 1 to 65535")))
        })
        .collect();
    match ports?.as_slice() {
        [] => Err(Status::bad_request("query parameter \"port\" is required")),
        ports if ports.len() > MOST_PORTS => Err(Status::bad_request(format!(
            "at most {MOST_PORTS} ports may be forwarded over one connection"
        ))),
        ports => Ok(ports.to_vec()),
    }
}

/// Forwards until all ports have nothing more to say or the client is gone.
async fn serve(socket: WebSocket, ports: Vec<u16>, runtime: Arc<dyn Runtime>, id: String) {
    let (sink, messages) = socket.split();
    let (gets, told) = mpsc::channel(WAITING);
    let (mut inputs, mut work) = (Vec::new(), JoinSet::new());
    for (number, port) in (0_u8..).step_by(2).zip(ports) {
        let ((data, near), (error, why)) = (duplex(PIECE), duplex(PIECE));
        let (output, input) = tokio::io::split(near);
        inputs.push(input);
        let connection = Connection { port, data: Box::new(data), error: Box::new(error) };
        work.spawn(carry(connection, runtime.clone(), id.clone()));
        work.spawn(send(number, port, output, gets.clone()));
        work.spawn(send(number + 1, port, why, gets.clone()));
    }
    drop(gets);
    tokio::select! {
        () = hear(payloads(messages), inputs) => {}
        () = tell(sink, told) => {}
    }
    // Dropped, what is left of the work ends.
    drop(work);
}

/// Hands what comes to the ports until the client goes away.
async fn hear(messages: impl futures_util::Stream<Item = Bytes>, mut inputs: Vec<impl AsyncWrite + Unpin>) {
    let mut messages = pin!(messages);
    while let Some(message) = messages.next().await {
        // What is said on a channel of errors is of no interest, and a port that is closed takes nothing more.
        if let Some((number, bytes)) = message.split_first()
            && number % 2 == 0
            && let Some(input) = inputs.get_mut(usize::from(number / 2))
        {
            let _ = input.write_all(bytes).await;
        }
    }
}

/// Sends what there is to send, and goodbye when nothing more comes.
async fn tell(mut sink: SplitSink<WebSocket, Message>, mut told: mpsc::Receiver<Message>) {
    while let Some(message) = told.recv().await {
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let _ = sink.send(closing()).await;
}

/// Makes messages of a channel of what is read, until there is no more.
async fn send(number: u8, port: u16, mut from: impl AsyncRead + Unpin, gets: mpsc::Sender<Message>) {
    // The first message of a channel says whose it is.
    let mut message = frame(number, &port.to_le_bytes());
    let mut piece = vec![0; PIECE];
    while gets.send(message).await.is_ok() {
        match from.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => message = frame(number, &piece[..read]),
        }
    }
}

/// Connects to the port and carries both directions until the port has said all or one side is gone.
pub async fn carry(connection: Connection, runtime: Arc<dyn Runtime>, id: String) {
    let Connection { port, data, mut error } = connection;
    let stream = match runtime.dial(&id, port).await {
        Ok(stream) => stream,
        Err(why) => {
            let text = format!("error forwarding port {port} to pod: {why}");
            let _ = error.write_all(text.as_bytes()).await;
            return;
        }
    };
    let (mut from_client, mut to_client) = tokio::io::split(data);
    let (mut from_port, mut to_port) = tokio::io::split(stream);
    let there = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_port).await;
        let _ = to_port.shutdown().await;
        // The client has said all; the port may not have.
        pending::<()>().await;
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_port, &mut to_client) => {}
        () = there => {}
    }
    let _ = to_client.shutdown().await;
}
