//! Appends protobuf tags, numbers and lengths to a message.

/// The wire type of integers and booleans.
const VARINT: u64 = 0;
/// The wire type of 8-byte numbers.
const FIXED64: u64 = 1;
/// The wire type of strings, bytes and messages.
const LENGTH_DELIMITED: u64 = 2;

/// Begins a message under a field number. Pass the returned position to [`end`].
pub(super) fn begin(out: &mut Vec<u8>, number: u32) -> usize {
    varint(out, u64::from(number) << 3 | LENGTH_DELIMITED);
    // Reserve one byte for the length, which is enough for most messages.
    out.push(0);
    out.len()
}

/// Ends a message: writes its length at the position that [`begin`] returned.
pub(super) fn end(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    let mut encoded = Vec::with_capacity(10);
    varint(&mut encoded, length as u64);
    let more = encoded.len() - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + length, start + more);
    }
    out[start - 1..start + more].copy_from_slice(&encoded);
}

/// Appends a string field.
pub(super) fn text_field(out: &mut Vec<u8>, number: u32, text: &str) {
    bytes_field(out, number, text.as_bytes());
}

/// Appends a bytes or message field.
pub(super) fn bytes_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    length_field(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the tag and length of a field whose bytes follow.
pub(super) fn length_field(out: &mut Vec<u8>, number: u32, length: usize) {
    varint(out, u64::from(number) << 3 | LENGTH_DELIMITED);
    varint(out, length as u64);
}

/// Appends an integer field. Negative numbers take ten bytes, as in Go.
pub(super) fn integer_field(out: &mut Vec<u8>, number: u32, value: i64) {
    varint(out, u64::from(number) << 3 | VARINT);
    varint(out, value.cast_unsigned());
}

/// Appends an 8-byte number field.
pub(super) fn double_field(out: &mut Vec<u8>, number: u32, value: f64) {
    varint(out, u64::from(number) << 3 | FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
