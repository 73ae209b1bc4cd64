//! gRPC probe: succeeds if `grpc.health.v1.Health/Check` answers SERVING.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use k8s_openapi::api::core::v1::GRPCAction;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;

use super::address::{Address, io_text};
use super::check::Outcome;
use super::handler::PROBE_USER_AGENT;
use super::http2::{self, Answer};
use super::tls::{self, Protocol};

/// gRPC status code for an unknown method.
const UNIMPLEMENTED: u32 = 12;
/// gRPC status code for a timeout.
const DEADLINE_EXCEEDED: u32 = 4;
/// The serving status of a healthy service.
const SERVING: u64 = 1;

/// A prepared health check.
pub(super) struct Health {
    address: Address,
    tls: bool,
    request: Request<()>,
    message: Bytes,
}

impl Health {
    /// Prepares the check of an action in the manifest.
    pub fn new(action: &GRPCAction, ip: IpAddr) -> Result<Self, String> {
        let port = u16::try_from(action.port).ok().filter(|port| *port > 0);
        let port =
            port.ok_or_else(|| format!("{} is not a port; give a number from 1 to 65535", action.port))?;
        let address = Address::Ip(SocketAddr::new(ip, port));
        let tls = action.mode.as_deref() == Some("TLS");
        let scheme = if tls { "https" } else { "http" };
        let uri: Uri = format!("{scheme}://{address}/grpc.health.v1.Health/Check")
            .parse()
            .map_err(|error| format!("cannot build a request for {address}: {error}"))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header("content-type", "application/grpc")
            .header("user-agent", PROBE_USER_AGENT.as_str())
            .header("te", "trailers")
            .body(())
            .map_err(|error| format!("cannot build a request for {address}: {error}"))?;
        let message = encode(action.service.as_deref().unwrap_or_default());
        Ok(Self { address, tls, request, message })
    }

    /// Runs the check once.
    pub async fn check(&self, timeout: Duration) -> Outcome {
        let deadline = tokio::time::Instant::now() + timeout;
        let within = format_args!("{}s", timeout.as_secs()).to_string();
        let stream = match tokio::time::timeout_at(deadline, self.address.connect()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let failure =
                    format!("error: failed to connect service at {:?}: {error}", self.address.to_string());
                return Outcome::Failure(failure);
            }
            Err(_) => {
                return Outcome::Failure(format!(
                    "timeout: failed to connect service {:?} within {within}: context deadline exceeded",
                    self.address.to_string()
                ));
            }
        };
        let call = async {
            let stream = TcpStream::from_std(stream).map_err(|error| io_text(&error))?;
            let message = Some(self.message.clone());
            if self.tls {
                let stream = tls::wrap(stream, &self.address, Protocol::Http2).await?;
                http2::send(stream, self.request.clone(), message).await
            } else {
                http2::send(stream, self.request.clone(), message).await
            }
        };
        match tokio::time::timeout_at(deadline, call).await {
            Ok(Ok(answer)) => judge(&answer, &within),
            Ok(Err(error)) => {
                let why = format!("rpc error: code = Unavailable desc = connection error: {error}");
                Outcome::Failure(format!("error: health rpc probe failed: {why}"))
            }
            Err(_) => Outcome::Failure(format!("timeout: health rpc did not complete within {within}")),
        }
    }
}

/// Converts the response to a probe outcome.
fn judge(answer: &Answer, within: &str) -> Outcome {
    if answer.status != StatusCode::OK {
        let status = answer.status.as_u16();
        return Outcome::Failure(format!(
            "error: health rpc probe failed: rpc error: code = Unavailable desc = the server answered with HTTP \
             status {status}, which no gRPC server does"
        ));
    }
    // A response without a message has its trailers among the headers.
    let trailers = if answer.trailers.is_empty() { &answer.headers } else { &answer.trailers };
    let (code, message) = outcome_of_call(trailers);
    match code {
        Some(0) => match decode(&answer.body) {
            Some(SERVING) => Outcome::Success,
            Some(status) => {
                Outcome::Failure(format!("service unhealthy (responded with {:?})", status_name(status)))
            }
            None => Outcome::Failure(
                "error: health rpc probe failed: the answer is not a HealthCheckResponse".to_owned(),
            ),
        },
        Some(UNIMPLEMENTED) => Outcome::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Some(DEADLINE_EXCEEDED) => {
            Outcome::Failure(format!("timeout: health rpc did not complete within {within}"))
        }
        Some(code) => Outcome::Failure(format!(
            "error: health rpc probe failed: rpc error: code = {} desc = {message}",
            code_name(code)
        )),
        None => Outcome::Failure(
            "error: health rpc probe failed: rpc error: code = Internal desc = server closed the stream without \
             sending trailers"
                .to_owned(),
        ),
    }
}

fn outcome_of_call(headers: &HeaderMap) -> (Option<u32>, String) {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok());
    let message = percent_decode_str(text("grpc-message").unwrap_or_default()).decode_utf8_lossy();
    (code, message.into_owned())
}

/// Encodes a framed `HealthCheckRequest`. Its field 1 is the service.
fn encode(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    frame.freeze()
}

/// Decodes the status (field 1) of a framed `HealthCheckResponse`; zero if it is absent.
fn decode(frame: &[u8]) -> Option<u64> {
    let (head, rest) = frame.split_at_checked(5)?;
    let length = usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]])).ok()?;
    let mut message = rest.get(..length).filter(|_| head[0] == 0)?;
    let mut status = 0;
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match key & 7 {
            0 => {
                let value = varint(&mut message)?;
                if key >> 3 == 1 {
                    status = value;
                }
            }
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn status_name(status: u64) -> String {
    match status {
        0 => "UNKNOWN".to_owned(),
        SERVING => "SERVING".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}

fn code_name(code: u32) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    usize::try_from(code)
        .ok()
        .and_then(|code| NAMES.get(code))
        .map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}
