//! Sessions between a client and a server.

use http::HeaderMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{Client, IDLE, data, headers};
use crate::spdy::frame::{Frame, reason};
use crate::spdy::session::MAX_STREAMS;
use crate::spdy::{Session, Stream};

fn all(_: &HeaderMap) -> bool {
    true
}

const STDIN: &[(&str, &str)] = &[("streamtype", "stdin")];

async fn begun() -> (Client, Session, Stream) {
    let (mut client, mut session) = Client::new(all);
    let stream = client.begin(&mut session, 1, STDIN).await;
    (client, session, stream)
}

#[tokio::test]
async fn one_megabyte_is_echoed() {
    let (mut client, mut session, stream) = begun().await;
    let other = client.begin(&mut session, 3, &[("streamtype", "stdout")]).await;
    assert_eq!((stream.kind(), other.kind(), other.header("port")), ("stdin", "stdout", ""));
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = (stream.reader, other.writer);
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        // The client sees the end even if both are still held.
        writer.shutdown().await.unwrap();
        (reader, writer, stream.writer)
    });
    // Read in large chunks; until then it is buffered.
    let (mut got, mut gone) = (Vec::new(), 0);
    for piece in sent.chunks(50_000) {
        client.send(data(1, piece, false)).await;
        gone += piece.len();
        while got.len() + 40_000 < gone {
            match client.next().await {
                Some(Frame::Data { stream: 3, fin: false, bytes }) => got.extend_from_slice(&bytes),
                other => panic!("{other:?}"),
            }
        }
    }
    client.send(data(1, b"", true)).await;
    got.extend(client.rest(3).await);
    assert!(got == sent, "{} bytes came back", got.len());
    drop(echo.await.unwrap());
}

#[tokio::test]
async fn either_side_may_end_first() {
    let (mut client, mut session, mut stream) = begun().await;
    client.send(data(1, b"in", true)).await;
    let mut text = String::new();
    stream.reader.read_to_string(&mut text).await.unwrap();
    stream.writer.write_all(b"out").await.unwrap();
    drop(stream);
    assert_eq!((text.as_str(), client.rest(1).await.as_slice()), ("in", &b"out"[..]));

    let mut stream = client.begin(&mut session, 3, STDIN).await;
    stream.writer.shutdown().await.unwrap();
    assert_eq!(client.rest(3).await, b"");
    client.send(data(3, b"late", true)).await;
    assert_eq!(stream.reader.read_to_string(&mut text).await.unwrap(), 4);
}

#[tokio::test]
async fn pings_are_answered_and_unknown_frames_are_ignored() {
    let (mut client, _session, _stream) = begun().await;
    client.send(Frame::Settings(vec![(7, 65_536)])).await;
    client.send(Frame::WindowUpdate { stream: 1, bytes: 9 }).await;
    client.send(Frame::Headers { stream: 1, fin: false, headers: headers(STDIN) }).await;
    client.send(data(77, b"for a stream that is not there", true)).await;
    client.send(Frame::Reset { stream: 77, reason: reason::CANCEL }).await;
    client.send(Frame::Ping(2)).await;
    client.send(Frame::Ping(1)).await;
    assert_eq!(client.next().await, Some(Frame::Ping(1)));
}

#[tokio::test]
async fn a_reset_ends_a_stream_both_ways() {
    let (mut client, mut session, mut stream) = begun().await;
    client.send(data(1, b"x", false)).await;
    client.send(Frame::Reset { stream: 1, reason: reason::CANCEL }).await;
    let mut text = String::new();
    assert_eq!(stream.reader.read_to_string(&mut text).await.unwrap(), 1);
    while stream.writer.write_all(&[0; 1024]).await.is_ok() {}
    // The next stream is not affected.
    client.begin(&mut session, 3, STDIN).await;
}

#[tokio::test]
async fn streams_are_refused_one_by_one() {
    let (mut client, mut session) = Client::new(|headers| headers.contains_key("streamtype"));
    let refused = |stream, reason| Some(Frame::Reset { stream, reason });
    client.send_request(1, &[("port", "80")]).await;
    assert_eq!(client.next().await, refused(1, reason::REFUSED));
    for number in [2, 1] {
        client.send_request(number, STDIN).await;
        assert_eq!(client.next().await, refused(number, reason::PROTOCOL_ERROR));
    }
    let mut held = Vec::new();
    for n in 1..=MAX_STREAMS as u32 {
        held.push(client.begin(&mut session, 2 * n + 1, STDIN).await);
    }
    client.send_request(9_999, STDIN).await;
    assert_eq!(client.next().await, refused(9_999, reason::REFUSED));
    // A closed stream makes room for another.
    held.pop();
    let last = 2 * MAX_STREAMS as u32 + 1;
    assert_eq!(client.rest(last).await, b"");
    client.send(data(last, b"", true)).await;
    client.begin(&mut session, 10_001, STDIN).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_holds_up_the_others_only_when_its_buffer_is_full() {
    let (mut client, mut session, mut slow) = begun().await;
    let mut quick = client.begin(&mut session, 3, STDIN).await;
    client.send(data(1, &[1; 60_000], false)).await;
    client.send(data(3, b"past it", false)).await;
    let mut seven = [0; 7];
    quick.reader.read_exact(&mut seven).await.unwrap();
    assert_eq!(&seven, b"past it");
    // Data beyond the buffers of the stream and the connection is not accepted.
    let sent = data(1, &[2; 500_000], true);
    let flood = tokio::spawn(async move {
        client.send(sent).await;
        client
    });
    tokio::task::yield_now().await;
    tokio::time::advance(IDLE / 2).await;
    assert!(!flood.is_finished(), "no reader has taken it");
    let mut all = Vec::new();
    slow.reader.read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), 560_000);
    let mut client = flood.await.unwrap();
    // A dropped reader makes room: its data is discarded.
    let abandoned = client.begin(&mut session, 5, STDIN).await;
    drop(abandoned.reader);
    client.send(data(5, &[3; 500_000], false)).await;
    client.send(Frame::Ping(7)).await;
    assert_eq!(client.next().await, Some(Frame::Ping(7)));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_while_its_data_is_unread_is_detected() {
    let (mut client, mut session, stream) = begun().await;
    let flood = tokio::spawn(async move { client.send(data(1, &[2; 500_000], true)).await });
    tokio::task::yield_now().await;
    assert!(!flood.is_finished(), "no reader takes it");
    flood.abort();
    // Unread data hides the end of the connection, which only a probe detects.
    let ended = tokio::time::timeout(IDLE / 100, session.accept()).await;
    assert!(ended.unwrap().is_none());
    drop(stream);
}

#[tokio::test]
async fn after_the_last_handle_is_dropped_data_is_sent_and_the_connection_closes() {
    let (mut client, session, mut stream) = begun().await;
    // Further data of the client does not keep the session open.
    client.send(data(1, &[0; 20_000], false)).await;
    drop(session);
    stream.writer.write_all(b"the last word").await.unwrap();
    assert_eq!(client.next().await, Some(data(1, b"the last word", false)));
    client.send_request(3, STDIN).await;
    assert_eq!(client.next().await, Some(Frame::Reset { stream: 3, reason: reason::REFUSED }));
    drop(stream);
    assert_eq!(client.rest(1).await, b"");
    assert_eq!(client.next().await, Some(Frame::GoAway { last: 3, status: 0 }));
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn client_disconnect_ends_all_streams() {
    let (client, mut session, mut stream) = begun().await;
    drop(client);
    assert!(session.accept().await.is_none());
    assert_eq!(stream.reader.read(&mut [0]).await.unwrap(), 0);
    while stream.writer.write_all(&[0; 1024]).await.is_ok() {}
}

#[tokio::test]
async fn a_client_of_another_protocol_gets_an_error() {
    let (mut client, mut session, _stream) = begun().await;
    client.send(Frame::GoAway { last: 0, status: 0 }).await;
    // The client has announced that it opens no more streams.
    client.send_request(3, STDIN).await;
    client.send_bytes(b"\x80\x02\x00\x06\x00\x00\x00\x04....").await;
    assert_eq!(client.next().await, Some(Frame::GoAway { last: 1, status: 1 }));
    assert_eq!(client.next().await, None);
    assert!(session.accept().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn idle_session_times_out() {
    let (mut client, mut session, _stream) = begun().await;
    tokio::time::advance(IDLE / 2).await;
    client.send(Frame::Ping(1)).await;
    assert_eq!(client.next().await, Some(Frame::Ping(1)));
    tokio::time::advance(IDLE * 3 / 4).await;
    client.send(Frame::Ping(3)).await;
    assert_eq!(client.next().await, Some(Frame::Ping(3)));
    // Without activity the paused clock advances.
    assert!(session.accept().await.is_none());
}
