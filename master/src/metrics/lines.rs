//! Counts the lines of a watch, which are its events, as they pass.

const NEWLINE: u8 = b'\n';

/// How many newlines there are; eight bytes at once, for every event of every watch goes by here.
pub(super) fn count(bytes: &[u8]) -> u64 {
    /// The lowest, and the highest, bit of each byte.
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u32 = words
        .iter()
        .map(|word| {
            // Zero where there is a newline. The highest bit of the sum tells of the other seven, so no byte touches another.
            let other = u64::from_ne_bytes(*word) ^ (LOW * u64::from(NEWLINE));
            let is_other = ((other & !HIGH) + !HIGH) | other;
            (!is_other & HIGH).count_ones()
        })
        .sum();
    let in_rest = rest.iter().filter(|byte| **byte == NEWLINE).count();
    u64::from(in_words) + in_rest as u64
}
