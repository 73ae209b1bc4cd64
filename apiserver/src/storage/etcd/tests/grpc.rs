//! Frame decoding and call status.

use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;
use prost::Message as _;

use crate::storage::etcd::grpc::{EtcdError, FrameError, Frames, MAX_MESSAGE_BYTES, Status, frame};
use crate::storage::etcd::messages::{PutRequest, WatchResponse};

proptest! {
    #[test]
    fn grpc_messages_are_assembled_from_any_chunks(sizes in prop::collection::vec(0_usize..400, 1..6), cut in 1_usize..97) {
        let messages: Vec<PutRequest> = sizes
            .iter()
            .map(|size| PutRequest { key: "k".into(), value: Bytes::from(vec![7; *size]) })
            .collect();
        let stream: Vec<u8> = messages.iter().flat_map(|message| frame(message).to_vec()).collect();
        let mut frames = Frames::default();
        let mut read = Vec::new();
        for piece in stream.chunks(cut) {
            frames.push(piece);
            while let Some(message) = frames.next().unwrap() {
                read.push(PutRequest::decode(message).unwrap());
            }
        }
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn grpc_reader_survives_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut frames = Frames::default();
        frames.push(&bytes);
        let _ = frames.next();
        let _ = WatchResponse::decode(bytes.as_slice());
    }
}

#[test]
fn oversized_and_compressed_frames_are_rejected() {
    let check = |head: [u8; 5], expected: FrameError| {
        let mut frames = Frames::default();
        frames.push(&head);
        assert_eq!(frames.next(), Err(expected));
    };
    let [a, b, c, d] = u32::try_from(MAX_MESSAGE_BYTES + 1).unwrap().to_be_bytes();
    check([0, a, b, c, d], FrameError::TooLarge(MAX_MESSAGE_BYTES + 1));
    check([1, 0, 0, 0, 1], FrameError::Compressed);
}

fn status(code: &str, message: &str) -> Option<Status> {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", code.parse().unwrap());
    headers.insert("grpc-message", message.parse().unwrap());
    Status::read(&headers)
}

#[test]
fn a_known_error_needs_its_code_and_its_text() {
    let error = |code: &str, message: &str| status(code, message).unwrap().error;
    let compacted = "etcdserver%3A mvcc: required revision has been compacted";
    assert_eq!(error("11", compacted), Some(EtcdError::Compacted));
    assert_eq!(error("2", compacted), None);
    assert_eq!(
        error("11", "etcdserver: mvcc: required revision is a future revision"),
        Some(EtcdError::FutureRevision)
    );
    assert_eq!(error("8", "etcdserver: mvcc: database space exceeded"), Some(EtcdError::NoSpace));
    assert_eq!(error("8", "etcdserver: too many requests"), None);
}

#[test]
fn a_status_has_the_code_and_the_decoded_message() {
    let read = |code: &str, message: &str| status(code, message).map(|status| (status.code, status.message));
    assert_eq!(read("0", ""), Some((0, String::new())));
    assert_eq!(read("14", "etcdserver%3A no leader"), Some((14, "etcdserver: no leader".to_owned())));
    assert_eq!(read("2", "100% %zz %"), Some((2, "100% %zz %".to_owned())));
    assert_eq!(read("x", ""), None);
    assert_eq!(Status::read(&HeaderMap::new()), None);
}
