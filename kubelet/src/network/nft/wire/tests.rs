//! Encoding by the kernel's headers, and decoding of invalid bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{ACK, Attributes, CREATE, Message, attributes, batch, find, long, messages, number, text};

#[test]
fn attributes_have_length_kind_value_and_padding() {
    let inner = Attributes::new().number(2, 7);
    let all = Attributes::new().text(1, "abc").bytes(5, &[9]).nested(4, &inner);
    #[rustfmt::skip]
    let expected = [
        8, 0, 1, 0, b'a', b'b', b'c', 0,
        5, 0, 5, 0, 9, 0, 0, 0,
        12, 0, 4, 0x80, 8, 0, 2, 0, 0, 0, 0, 7,
    ];
    #[cfg(target_endian = "little")]
    assert_eq!(all.0, expected);
    assert_eq!(text(&all.0, 1).as_deref(), Some("abc"));
    assert_eq!(find(&all.0, 5), Some(&[9][..]));
    assert_eq!(number(find(&all.0, 4).unwrap(), 2), Some(7));
    assert_eq!(number(&all.0, 9), None);
    assert_eq!(long(&Attributes::new().long(3, 1 << 40).0, 3), Some(1 << 40));
}

#[test]
fn parser_stops_at_truncated_attributes() {
    let whole = Attributes::new().number(1, 5).number(2, 6).0;
    for length in 0..whole.len() {
        assert_eq!(attributes(&whole[..length]).count(), length / 8, "{length}");
    }
    assert_eq!(attributes(&[0; 64]).count(), 0);
    assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
    assert_eq!(messages(&[0; 64]).count(), 0);
    assert_eq!(messages(&[15, 0, 0, 0, 1, 2, 3]).count(), 0);
}

#[test]
fn netlink_batch_has_markers_sequence_numbers_and_one_ack() {
    let message = Message::new(6, CREATE, 1, Attributes::new().number(1, 2));
    let bytes = batch(&[message.clone(), message], 77, 10);
    let read: Vec<_> = messages(&bytes).map(|m| (m.kind, m.flags, m.sequence)).collect();
    assert_eq!(read, [(0x10, 1, 10), (0xa06, 1 | CREATE, 11), (0xa06, 1 | CREATE | ACK, 12), (0x11, 1, 13)]);
    let first = messages(&bytes).next().unwrap();
    assert_eq!(first.body[..4], [0, 0, 0, 10], "the subsystem is big-endian");
    assert_eq!(number(first.attributes(), 1), Some(77));
    let second = messages(&bytes).nth(1).unwrap();
    assert_eq!((second.family(), number(second.attributes(), 1)), (1, Some(2)));
}

#[test]
fn an_error_message_has_its_errno() {
    let answer = |kind: u16, errno: i32| {
        let mut bytes = 20u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend((-errno).to_ne_bytes());
        messages(&bytes).next().unwrap().errno()
    };
    assert_eq!(answer(2, 17), 17);
    assert_eq!(answer(3, 4), 4);
    assert_eq!(answer(0xa00, 4), 0);
}
