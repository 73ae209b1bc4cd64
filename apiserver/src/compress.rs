//! Gzip compression of large responses.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use tokio::sync::Semaphore;

use crate::request::header_values;

/// Largest response that is not compressed, in bytes, as in kube-apiserver. Compressing a small response takes
/// longer than sending it.
const MIN_BYTES: u64 = 128 * 1024;
/// Largest response that is compressed, in bytes. Larger ones are lists without a limit, encoded while they are
/// sent. Compressed, they would stay in memory until the client has read them.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Compression level, as in kube-apiserver. Higher levels take several times longer for a tenth of the size.
const LEVEL: Compression = Compression::new(1);

/// Limit for simultaneous compressions. Further responses are sent uncompressed, so that compression does not use
/// all processors.
static COMPRESSIONS: Semaphore = Semaphore::const_new(2);

/// Whether a client accepts gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    header_values(headers, header::ACCEPT_ENCODING).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

/// Compresses a large response with a known length; streams are sent as they are.
pub(crate) async fn large(answer: Response) -> Response {
    let is_large =
        answer.body().size_hint().exact().is_some_and(|length| (MIN_BYTES..=MAX_BYTES).contains(&length));
    if !is_large || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return answer;
    }
    let Ok(turn) = COMPRESSIONS.try_acquire() else { return answer };
    let (mut head, body) = answer.into_parts();
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(head, Body::empty());
    };
    let from = plain.clone();
    // Compression takes milliseconds and must not block the async threads.
    let packed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        gzip(&from)
    });
    let packed = packed.await;
    let Ok(Ok(packed)) = packed else { return Response::from_parts(head, Body::from(plain)) };
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(packed))
}

fn gzip(plain: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), LEVEL);
    encoder.write_all(plain)?;
    encoder.finish()
}
