//! Connections from a client to ports of a pod: streams of SPDY, as kubectl has them, in a WebSocket or not; or one WebSocket
//! with two channels a port, the second for what went wrong.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Status;
use apiserver::activity::Activity;
use apiserver::spdy::{Upgrade, pairs};
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
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
use super::websocket::{WAITING, frame, patiently, payloads, read_off, tell, upgrade};
use crate::observed::PodUid;
use crate::runtime::Runtime;

/// The protocols of forwarded ports over a WebSocket, the one whose frames are bytes as they are last.
const PROTOCOLS: [&str; 2] = [SPDY_WITHIN, "v4.channel.k8s.io"];
/// SPDY whose bytes are in the messages of a WebSocket.
const SPDY_WITHIN: &str = "SPDY/3.1+portforward.k8s.io";
/// Most ports of one WebSocket: a channel is a byte, a port has two of them, and the last one is another protocol's.
const MOST_PORTS: usize = 127;
/// Bytes of a connection that wait in one direction, and that are sent at once.
const PIECE: usize = 32 * 1024;
/// How long a connection goes on in which nothing moves once one side has said all: long enough for whoever thinks before
/// the answer, and not for ever for whoever forgets to close.
const HALF_CLOSED_IDLE: Duration = Duration::from_secs(15 * 60);

/// Where connections go.
#[derive(Clone)]
pub struct To {
    /// The engine.
    pub runtime: Arc<dyn Runtime>,
    /// The pod, whose sandbox is looked up for every connection: containers come and go meanwhile.
    pub pod: PodUid,
    /// How long a connection, and all of them together, go on in which nothing moves.
    pub idle: Duration,
}

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
    let idle = context.streaming_idle;
    let to = To { runtime: context.runtime, pod: shown.network()?, idle };
    if Upgrade::is_asked(&parts.headers) {
        let upgrade = Upgrade::read(&mut parts, pairs::PROTOCOLS)?;
        return Ok(upgrade.serve(pairs::admit, idle, move |session| spdy::forward(session, to)));
    }
    let upgrade = upgrade(&mut parts, &PROTOCOLS).await?;
    if upgrade.selected_protocol().is_some_and(|agreed| agreed.as_bytes() == SPDY_WITHIN.as_bytes()) {
        return Ok(upgrade.on_upgrade(move |socket| spdy::forward_within(socket, to)));
    }
    let ports = ports(&query)?;
    Ok(upgrade.on_upgrade(move |socket| serve(socket, ports, to)))
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

/// Forwards until all ports have nothing more to say, the client is gone, or nothing moves.
async fn serve(socket: WebSocket, ports: Vec<u16>, to: To) {
    let (mut sink, mut messages) = socket.split();
    let (gets, told) = mpsc::channel(WAITING);
    let (activity, idle) = (Activity::begin(), to.idle);
    let (mut inputs, mut work) = (Vec::new(), JoinSet::new());
    for (number, port) in (0_u8..).step_by(2).zip(ports) {
        let ((data, near), (error, why)) = (duplex(PIECE), duplex(PIECE));
        let (output, input) = tokio::io::split(near);
        inputs.push(input);
        let connection = Connection { port, data: Box::new(data), error: Box::new(error) };
        work.spawn(carry(connection, to.clone()));
        work.spawn(send(number, port, output, gets.clone()));
        work.spawn(send(number + 1, port, why, gets.clone()));
    }
    let asks = gets.downgrade();
    drop(gets);
    let hearing = async {
        tokio::select! {
            () = hear(payloads(&mut messages, activity.clone()), inputs, asks) => {}
            () = activity.ceased(idle) => {}
        }
        // What is left of the work ends, and nobody has more to tell.
        drop(work);
        pending().await
    };
    let told = tokio::select! {
        told = tell(&mut sink, told, activity.clone(), idle) => told,
        never = hearing => never,
    };
    if told.is_ok() {
        read_off(messages).await;
    }
}

/// Hands what comes to the ports until the client goes away.
async fn hear(
    messages: impl futures_util::Stream<Item = Bytes>,
    mut inputs: Vec<impl AsyncWrite + Unpin>,
    asks: mpsc::WeakSender<Message>,
) {
    let mut messages = pin!(messages);
    while let Some(message) = messages.next().await {
        // What is said on a channel of errors is of no interest, and a port that is closed takes nothing more.
        if let Some((number, bytes)) = message.split_first()
            && number % 2 == 0
            && let Some(input) = inputs.get_mut(usize::from(number / 2))
            && patiently(input.write_all(bytes), &asks).await.is_err()
        {
            return;
        }
    }
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

/// Connects to the port and carries both directions until the port has said all, one side is gone, or nothing moves.
pub async fn carry(connection: Connection, to: To) {
    let Connection { port, data, mut error } = connection;
    let stream = match to.runtime.dial(&to.pod, port).await {
        Ok(stream) => stream,
        Err(why) => {
            let text = format!("error forwarding port {port} to pod: {why}");
            let _ = error.write_all(text.as_bytes()).await;
            return;
        }
    };
    let (mut from_client, mut to_client) = tokio::io::split(data);
    let (mut from_port, mut to_port) = tokio::io::split(stream);
    let activity = Activity::begin();
    let there = async {
        let _ = copy(&mut from_client, &mut to_port, &activity).await;
        let _ = to_port.shutdown().await;
        // The client has said all; the port may not have.
        activity.moved();
        activity.ceased(to.idle.min(HALF_CLOSED_IDLE)).await;
    };
    tokio::select! {
        _ = copy(&mut from_port, &mut to_client, &activity) => {}
        () = there => {}
        () = activity.ceased(to.idle) => {}
    }
    let _ = to_client.shutdown().await;
}

/// Carries one direction to its end.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(PIECE);
        if from.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        activity.moved();
        to.write_all_buf(&mut bytes).await?;
        to.flush().await?;
        activity.moved();
    }
}
