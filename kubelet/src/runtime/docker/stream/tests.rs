//! Frames and lines, split at arbitrary positions.
#![allow(clippy::unwrap_used, reason = "tests")]

use futures_util::TryStreamExt;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::*;

fn cut(bytes: &[u8], size: usize) -> Chunks {
    let pieces: Vec<_> = bytes.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces).boxed()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0];
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

proptest! {
    #[test]
    fn frames_are_decoded_wherever_they_are_split(
        payloads in prop::collection::vec((1..=2u8, prop::collection::vec(any::<u8>(), 0..50)), 0..8),
        size in 1..40usize,
    ) {
        let wire: Vec<u8> = payloads.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
        let pieces: Vec<_> = wait(output(cut(&wire, size), false).try_collect()).unwrap();
        for (kind, stream) in [(1, Stream::Stdout), (2, Stream::Stderr)] {
            let sent: Vec<u8> = payloads.iter().filter(|(of, _)| *of == kind).flat_map(|(_, p)| p.clone()).collect();
            let got: Vec<u8> = pieces.iter().filter(|(of, _)| *of == stream).flat_map(|(_, p)| p.to_vec()).collect();
            prop_assert_eq!(got, sent);
        }
    }

    #[test]
    fn lines_are_complete_wherever_they_are_split(text in "[a-z\n]{0,60}", size in 1..20usize) {
        let got: Vec<Bytes> = wait(lines(cut(text.as_bytes(), size), "read lines").try_collect()).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let sent: Vec<&str> = if text.contains('\n') { whole.split('\n').collect() } else { Vec::new() };
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn terminal_output_is_not_decoded() {
    let prompt = b"\x01\x02 no line end $ ";
    let pieces: Vec<_> = wait(output(cut(prompt, 100), true).try_collect()).unwrap();
    assert_eq!(pieces, [(Stream::Stdout, Bytes::from_static(prompt))]);
}

#[tokio::test]
async fn output_ends_without_error_if_the_engine_closes_the_socket_before_it_has_read_all_input() {
    let (mut engine, mut kubelet) = UnixStream::pair().unwrap();
    kubelet.write_all(b"input that the engine does not read").await.unwrap();
    engine.write_all(&frame(1, b"output")).await.unwrap();
    drop(engine);
    let pieces: Vec<_> = output(chunks(kubelet, "start the command"), false).try_collect().await.unwrap();
    assert_eq!(pieces, [(Stream::Stdout, Bytes::from_static(b"output"))]);
}

#[test]
fn query_parameters_are_percent_encoded() {
    let filter = r#"{"label":["a=b"]}"#;
    assert_eq!(
        query("/events", &[("since", "1.5"), ("filters", filter)]),
        "/events?since=1.5&filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D"
    );
}
