//! Frame encoding and decoding, and invalid bytes.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::client::{data, headers};
use crate::spdy::frame::{Decoder, Encoder, Error, Frame, MOST_CONTROL_BYTES};
use crate::spdy::headers::{self as blocks, Deflater, Inflater, MOST_HEADERS};

/// Created by zlib with the dictionary at the highest level: headers of two streams and an empty block, in
/// one context.
const OF_ZLIB: [&[u8]; 3] = [
    b"\x78\xf9\xe3\xc6\xa7\xc2\x02\x25\x3a\x70\x3a\x2b\x29\x4a\x4d\xcc\x85\x16\x25\xac\xa9\xa0\x80\x86\x14\xcb\x45\
      \xe0\x1c\x60\x61\x60\x61\x00\xa4\x39\x8b\x20\xd1\x98\x09\x4a\xde\x8c\x06\x00\x00\x00\x00\xff\xff",
    b"\xc2\xaa\x19\x54\x0e\x25\x12\xd6\x0b\x00\x00\x00\xff\xff",
    b"\x02\x12\x0c\x00\x00\x00\x00\xff\xff",
];

/// Decodes bytes that arrive in pieces of these lengths. Returns frames, with data merged, and the final error.
fn decode(mut bytes: &[u8], lengths: &[usize]) -> (Vec<Frame>, Option<Error>) {
    let (mut decoder, mut come, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    let mut lengths = lengths.iter().copied().cycle();
    let mut is_begun = false;
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(lengths.next().unwrap_or(bytes.len()).clamp(1, bytes.len()));
        come.extend_from_slice(piece);
        bytes = rest;
        loop {
            match decoder.next(&mut come) {
                Ok(None) => break,
                Ok(Some(frame)) => is_begun = add(&mut frames, frame, is_begun),
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(come.len() < MOST_CONTROL_BYTES + 8 + piece.len(), "{} bytes are kept", come.len());
    }
    (frames, None)
}

/// Merges fragments of a data frame. Returns whether the last one may continue.
fn add(frames: &mut Vec<Frame>, frame: Frame, is_begun: bool) -> bool {
    if let Frame::Data { stream, fin, bytes } = &frame {
        if is_begun
            && let Some(Frame::Data { stream: before, fin: ended, bytes: all }) = frames.last_mut()
            && before == stream
        {
            *all = [&all[..], bytes].concat().into();
            *ended = *fin;
        } else {
            frames.push(frame.clone());
        }
        return !fin;
    }
    frames.push(frame);
    false
}

fn any_headers() -> impl Strategy<Value = HeaderMap> {
    vec(("[a-z][a-z0-9-]{0,12}", "[ -~]{0,40}"), 0..12).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(&value).unwrap(),
            );
        }
        headers
    })
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let stream = || 1_u32..0x7fff_ffff;
    let any31 = || 0_u32..0x7fff_ffff;
    prop_oneof![
        (stream(), any::<bool>(), any::<bool>(), any_headers()).prop_map(
            |(stream, fin, unidirectional, headers)| Frame::SynStream {
                stream,
                fin,
                unidirectional,
                headers
            }
        ),
        (stream(), any::<bool>(), any_headers()).prop_map(|(stream, fin, headers)| Frame::SynReply {
            stream,
            fin,
            headers
        }),
        (stream(), any::<bool>(), any_headers()).prop_map(|(stream, fin, headers)| Frame::Headers {
            stream,
            fin,
            headers
        }),
        (stream(), any::<u32>()).prop_map(|(stream, reason)| Frame::Reset { stream, reason }),
        vec(any::<(u32, u32)>(), 0..9).prop_map(Frame::Settings),
        any::<u32>().prop_map(Frame::Ping),
        (any31(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
        (any31(), any31()).prop_map(|(stream, bytes)| Frame::WindowUpdate { stream, bytes }),
        // With the fin flag, so that the next frame is not merged into it.
        (stream(), vec(any::<u8>(), 0..300)).prop_map(|(stream, bytes)| Frame::Data {
            stream,
            fin: true,
            bytes: bytes.into()
        }),
    ]
}

fn encoded(frames: &[Frame]) -> BytesMut {
    let (mut encoder, mut bytes) = (Encoder::default(), BytesMut::new());
    frames.iter().for_each(|frame| encoder.encode(frame, &mut bytes));
    bytes
}

/// A few hundred cases, or `CORACLE_FUZZ_CASES`; always the same ones.
fn runner() -> TestRunner {
    let case_count = std::env::var("CORACLE_FUZZ_CASES").ok().map(|text| text.parse().unwrap());
    let config = Config { cases: case_count.unwrap_or(300), failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn frames_round_trip_in_any_chunks() {
    let cases = (vec(any_frame(), 0..12), vec(1_usize..700, 1..5));
    let run = runner().run(&cases, |(frames, lengths)| {
        prop_assert_eq!(decode(&encoded(&frames), &lengths), (frames, None));
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn decoder_survives_damaged_frames() {
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let cases = (vec(any_frame(), 1..8), damage, vec(1_usize..700, 1..5), vec(any::<u8>(), 0..64));
    let run = runner().run(&cases, |(frames, damage, lengths, noise)| {
        let mut bytes = encoded(&frames);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.extend_from_slice(&noise);
        let (found, _) = decode(&bytes, &lengths);
        let held: usize = found
            .iter()
            .map(|frame| match frame {
                Frame::Data { bytes, .. } => bytes.len(),
                Frame::Settings(settings) => 8 * settings.len(),
                _ => 0,
            })
            .sum();
        prop_assert!(held <= bytes.len());
        // The division into pieces does not matter.
        prop_assert_eq!(found, decode(&bytes, &[]).0);
        // The same without a valid prefix.
        decode(&noise, &lengths);
        let _ = Inflater::default().headers(&noise);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn compressed_headers_are_decoded_with_their_context() {
    let mut inflater = Inflater::default();
    let of = |kind| headers(&[("streamtype", kind), ("port", "8080"), ("requestid", "0")]);
    for (block, expected) in OF_ZLIB.iter().zip([of("error"), of("data"), HeaderMap::new()]) {
        assert_eq!(inflater.headers(block), Ok(expected));
    }
    // The second block cannot be decoded without the first.
    assert!(Inflater::default().headers(OF_ZLIB[1]).is_err());
}

#[test]
fn repeated_header_values_are_joined() {
    let mut many = headers(&[("a", "1"), ("b", "")]);
    many.append("a", HeaderValue::from_static("2"));
    let mut block = BytesMut::new();
    Deflater::default().block(&many, &mut block);
    assert_eq!(Inflater::default().headers(&block), Ok(many));
}

/// A compressed block of these bytes.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(b"\x78\xbb\xe3\xc6\xa7\xc2".to_vec(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.flush().unwrap();
    encoder.get_ref().clone()
}

#[test]
fn invalid_headers_are_errors() {
    let named = |name: &[u8], value: &[u8]| {
        let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
        packed(&[&[0, 0, 0, 1][..], &length(name), name, &length(value), value].concat())
    };
    let bomb = [&[0, 0, 0, 1, 0, 8, 0, 0][..], &vec![b'a'; 1_000_000]].concat();
    let many = [&(MOST_HEADERS + 1).to_be_bytes()[..], &[0; 1024]].concat();
    for (what, block, expected) in [
        ("nothing", vec![], blocks::Error::Length),
        ("no dictionary", b"\x78\x9c\x03\x00\x00\x00\x00\x01".to_vec(), blocks::Error::Dictionary),
        ("another", b"\x78\xbb\x00\x00\x00\x01\x00\x00".to_vec(), blocks::Error::Dictionary),
        ("no deflate", b"\x78\xbb\xe3\xc6\xa7\xc2\x07\x00".to_vec(), blocks::Error::Deflate),
        ("a bomb", packed(&bomb), blocks::Error::TooLong),
        ("many", packed(&many), blocks::Error::TooLong),
        ("many values", named(b"a", &[0; MOST_HEADERS as usize]), blocks::Error::TooLong),
        ("too little", packed(&[0, 0, 0, 1, 0, 0, 0, 9, b'a']), blocks::Error::Length),
        ("no count", packed(&[0]), blocks::Error::Length),
        ("too much", packed(&[0, 0, 0, 0, 0]), blocks::Error::Length),
        ("a name", named(b"a b", b"c"), blocks::Error::Characters),
        ("no name", named(b"", b"c"), blocks::Error::Characters),
        ("a value", named(b"a", b"\n"), blocks::Error::Characters),
    ] {
        assert_eq!(Inflater::default().headers(&block), Err(expected), "{what}");
    }
    assert_eq!(Inflater::default().headers(&named(b"Port", b"80")), Ok(headers(&[("port", "80")])));
}

#[test]
fn invalid_frames_are_errors() {
    for (bytes, expected) in [
        (&b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"[..], Error::Version(2)),
        (b"\x80\x03\x00\x04\x00\xff\xff\xff", Error::TooLong(0xff_ffff)),
        (b"\x80\x03\x00\x06\x00\x00\x00\x05\x00\x00\x00\x01\x00", Error::Length(6)),
        (b"\x80\x03\x00\x06\x00\x00\x00\x00", Error::Length(6)),
        (b"\x80\x03\x00\x04\x00\x00\x00\x04\xff\xff\xff\xff", Error::Length(4)),
        (b"\x80\x03\x00\x01\x00\x00\x00\x04\x00\x00\x00\x01", Error::Length(1)),
        (b"\x80\x03\x00\x03\x00\x00\x00\x08\x80\x00\x00\x00\x00\x00\x00\x01", Error::NoStream),
        (b"\x00\x00\x00\x00\x00\x00\x00\x01x", Error::NoStream),
        (b"\x80\x03\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01", Error::Headers(blocks::Error::Length)),
    ] {
        assert_eq!(decode(bytes, &[]), (vec![], Some(expected)), "{bytes:?}");
    }
    // Frames of unknown types are skipped.
    let bytes = [&b"\x80\x03\x00\x0a\x00\x00\x00\x02xx"[..], &encoded(&[Frame::Ping(1)])].concat();
    assert_eq!(decode(&bytes, &[]), (vec![Frame::Ping(1)], None));
}

#[test]
fn long_data_is_split_into_several_frames() {
    let long = Bytes::from(vec![7; 0x0100_0001]);
    let bytes = encoded(&[Frame::Data { stream: 5, fin: true, bytes: long.clone() }]);
    assert_eq!((&bytes[..8], bytes.len()), (&b"\x00\x00\x00\x05\x00\xff\xff\xff"[..], long.len() + 16));
    let (frames, _) = decode(&bytes, &[1_000_000]);
    assert!(frames == [Frame::Data { stream: 5, fin: true, bytes: long }]);
    let mut decoder = Decoder::default();
    let mut come = BytesMut::from(&bytes[..20]);
    assert_eq!(decoder.next(&mut come), Ok(Some(data(5, &[7; 12], false))));
    assert_eq!((decoder.next(&mut come), come.len()), (Ok(None), 0));
}
