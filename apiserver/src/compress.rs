//! Large answers are compressed for clients that take it.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};

use crate::request::words;

/// Answers beyond this are compressed; the stock server's. Less is sent sooner than it is packed.
const LEAST_BYTES: u64 = 128 * 1024;
/// How hard it is tried; the stock server's. More takes several times as long for a tenth of the bytes.
const LEVEL: Compression = Compression::new(1);

/// Whether a client takes answers in gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    words(headers, header::ACCEPT_ENCODING).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

/// The answer, compressed when it is large and whole: a stream, which has no length, goes out as it comes.
pub(crate) async fn large(answer: Response) -> Response {
    let is_large = answer.body().size_hint().exact().is_some_and(|length| length > LEAST_BYTES);
    if !is_large || answer.headers().contains_key(header::CONTENT_ENCODING) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    // What has a length is in memory already.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(head, Body::empty());
    };
    let from = plain.clone();
    // It takes milliseconds, in which other answers are due.
    let packed = tokio::task::spawn_blocking(move || gzip(&from)).await;
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
