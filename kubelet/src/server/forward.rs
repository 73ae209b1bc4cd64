//! Port forwarding over SPDY, over SPDY in a WebSocket, or over a WebSocket with a data and an error channel per port.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Status;
use apiserver::activity::Activity;
use apiserver::spdy::{Upgrade, port_forward};
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use http::request::Parts;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Context;
use super::channels::Connection;
use super::container::ServedPod;
use super::logs::Pairs;
use super::spdy;
use super::upgrade::Refused;
use super::websocket::{WAITING, drain, frame, payloads, send_all, upgrade, with_liveness_pings};
use crate::observed::PodUid;
use crate::runtime::Runtime;

/// WebSocket subprotocols for port forwarding. The one with raw frames is the last.
const PROTOCOLS: [&str; 2] = [SPDY_WITHIN, "v4.channel.k8s.io"];
/// Subprotocol for SPDY that is tunneled through WebSocket messages.
const SPDY_WITHIN: &str = "SPDY/3.1+portforward.k8s.io";
/// Maximum number of ports per WebSocket. Each port uses two of the 256 channel numbers, and 255 is reserved.
const MOST_PORTS: usize = 127;
/// Buffer size per direction in bytes, and maximum size of a message.
const PIECE: usize = 32 * 1024;
/// Idle timeout of a connection after one side has finished sending. It is long enough for a slow answer, and short
/// enough to clean up forgotten connections.
const HALF_CLOSED_IDLE: Duration = Duration::from_secs(15 * 60);

/// Target of forwarded connections.
#[derive(Clone)]
pub struct Destination {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The pod. Its sandbox is looked up for each connection, because it may be replaced meanwhile.
    pub pod: PodUid,
    /// Idle timeout of each connection and of the session.
    pub idle: Duration,
}

/// Namespace and name of the pod, parsed from the request path.
#[derive(Debug, Deserialize)]
pub struct Target {
    namespace: String,
    #[serde(alias = "name")]
    pod: String,
}

/// Serves `.../pods/{name}/portforward` and `/portForward/{namespace}/{pod}`.
pub async fn forward(
    State(context): State<Context>,
    Path(target): Path<Target>,
    Query(query): Query<Pairs>,
    mut parts: Parts,
) -> Result<Response, Refused> {
    let shown = ServedPod::find(context.status_manager.store(), &target.namespace, &target.pod)?;
    let idle = context.streaming_idle;
    let to = Destination { runtime: context.runtime, pod: shown.network()?, idle };
    if Upgrade::is_requested(&parts.headers) {
        let upgrade = Upgrade::read(&mut parts, port_forward::PROTOCOLS)?;
        return Ok(upgrade.serve(port_forward::admit, idle, move |session| spdy::forward(session, to)));
    }
    let upgrade = upgrade(&mut parts, &PROTOCOLS).await?;
    if upgrade.selected_protocol().is_some_and(|agreed| agreed.as_bytes() == SPDY_WITHIN.as_bytes()) {
        return Ok(upgrade.on_upgrade(move |socket| spdy::forward_within(socket, to)));
    }
    let ports = ports(&query)?;
    Ok(upgrade.on_upgrade(move |socket| serve(socket, ports, to)))
}

/// The ports of a query, in order.
fn ports(query: &Pairs) -> Result<Vec<u16>, Status> {
    let texts = query.iter().filter(|(name, _)| matches!(name.as_str(), "port" | "ports"));
    let ports: Result<Vec<u16>, Status> = texts
        .flat_map(|(_, list)| list.split(','))
        .map(|text| {
            let port = text.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| Status::bad_request(format!("{text:?} is not a port; write 1 to 65535")))
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

/// Forwards until all ports have finished, the client disconnects, or the idle timeout expires.
async fn serve(socket: WebSocket, ports: Vec<u16>, to: Destination) {
    let (mut sink, mut messages) = socket.split();
    let (sender, outgoing) = mpsc::channel(WAITING);
    let (activity, idle) = (Activity::begin(), to.idle);
    let (mut inputs, mut work) = (Vec::new(), JoinSet::new());
    let (mut heads, mut outputs) = (Vec::new(), Vec::new());
    for (number, port) in (0_u8..).step_by(2).zip(ports) {
        let ((data, near), (error, why)) = (duplex(PIECE), duplex(PIECE));
        let (output, input) = tokio::io::split(near);
        inputs.push(input);
        let connection = Connection { port, data: Box::new(data), error: Box::new(error) };
        work.spawn(forward_port(connection, to.clone()));
        for channel in [number, number + 1] {
            heads.push(frame(channel, &port.to_le_bytes()));
        }
        outputs.push(send(number, output, sender.clone()).boxed());
        outputs.push(send(number + 1, why, sender.clone()).boxed());
    }
    let ping_sender = sender.downgrade();
    // Each channel starts with its port number, in the order of channels: data, then error, per port.
    work.spawn(async move {
        for head in heads {
            if sender.send(head).await.is_err() {
                return;
            }
        }
        drop(sender);
        join_all(outputs).await;
    });
    let receiving = async {
        tokio::select! {
            () = receive(payloads(&mut messages, activity.clone()), inputs, ping_sender) => {}
            () = activity.idle_for(idle) => {}
        }
        // Dropping the tasks ends them, so no further messages are sent.
        drop(work);
        pending().await
    };
    let sent = tokio::select! {
        sent = send_all(&mut sink, outgoing, activity.clone(), idle) => sent,
        never = receiving => never,
    };
    if sent.is_ok() {
        drain(messages).await;
    }
}

/// Passes data from the client to the ports until the client disconnects.
async fn receive(
    messages: impl futures_util::Stream<Item = Bytes>,
    mut inputs: Vec<impl AsyncWrite + Unpin>,
    ping_sender: mpsc::WeakSender<Message>,
) {
    let mut messages = pin!(messages);
    while let Some(message) = messages.next().await {
        // Data on error channels is ignored, as is data for closed ports.
        if let Some((number, bytes)) = message.split_first()
            && number % 2 == 0
            && let Some(input) = inputs.get_mut(usize::from(number / 2))
            && with_liveness_pings(input.write_all(bytes), &ping_sender).await.is_err()
        {
            return;
        }
    }
}

/// Sends input as messages of a channel, until the end of the input.
async fn send(number: u8, mut from: impl AsyncRead + Unpin, sender: mpsc::Sender<Message>) {
    let mut piece = vec![0; PIECE];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        if sender.send(frame(number, &piece[..read])).await.is_err() {
            return;
        }
    }
}

/// Connects to the port and copies both directions. It ends when the port closes, one side disconnects, or the idle
/// timeout expires.
pub async fn forward_port(connection: Connection, to: Destination) {
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
        // The client has finished; the port may still answer.
        activity.touch();
        activity.idle_for(to.idle.min(HALF_CLOSED_IDLE)).await;
    };
    tokio::select! {
        _ = copy(&mut from_port, &mut to_client, &activity) => {}
        () = there => {}
        () = activity.idle_for(to.idle) => {}
    }
    let _ = to_client.shutdown().await;
}

/// Copies one direction until its end.
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
        activity.touch();
        to.write_all_buf(&mut bytes).await?;
        to.flush().await?;
        activity.touch();
    }
}
