//! Responses in wire format: positions of records, truncation, ageing, and the EDNS record. Pure.
//!
//! Upstream responses are passed on and cached in wire format, so that records of every type stay unchanged.

/// Length of the header in bytes.
pub(super) const HEADER: usize = 12;
/// Length of an EDNS record without options in bytes.
pub(super) const OPT_BYTES: usize = 11;
/// The type of EDNS records.
const OPT: u16 = 41;
/// The type of SOA records.
const SOA: u16 = 6;
/// The type of questions for records of every type.
const ANY: u16 = 255;
/// Positions of the counts of answers, authorities and additional records in the header.
const COUNTS: [usize; 3] = [6, 8, 10];
/// Flags in the third byte of the header.
const AUTHORITATIVE: u8 = 0x04;
pub(super) const TRUNCATED: u8 = 0x02;
const RECURSION_DESIRED: u8 = 0x01;
/// Flags in the fourth byte of the header.
const RECURSION_AVAILABLE: u8 = 0x80;
const CHECKING_DISABLED: u8 = 0x10;

/// The position of one record.
#[derive(Clone, Copy, Debug)]
struct RecordAt {
    /// 0 for answers, 1 for authorities, 2 for additional records.
    section: usize,
    start: usize,
    /// The position of the time to live.
    ttl: usize,
    end: usize,
    kind: u16,
}

/// A response whose structure is valid, without an EDNS record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response(Vec<u8>);

impl Response {
    /// Checks a response, and removes its EDNS record. `None` if it is malformed.
    pub fn parse(mut bytes: Vec<u8>) -> Option<Self> {
        let all = records(&bytes)?;
        if let Some(opt) = all.iter().find(|record| record.kind == OPT && record.section == 2) {
            // The EDNS record is the last one, except in signed messages, whose signature is of no use to the client.
            let kept = all.iter().filter(|record| record.section == 2 && record.start < opt.start).count();
            bytes.truncate(opt.start);
            set_count(&mut bytes, 2, kept);
        } else {
            // Bytes after the last record would separate it from an appended one.
            bytes.truncate(all.last().map_or(question_end(&bytes)?, |last| last.end));
        }
        Some(Self(bytes))
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The response code, without the part in the EDNS record.
    pub fn code(&self) -> u8 {
        self.0[3] & 0x0f
    }

    /// Whether the sender had to omit records.
    pub fn is_truncated(&self) -> bool {
        self.0[2] & TRUNCATED != 0
    }

    /// Whether there are records in the answer section.
    pub fn has_answers(&self) -> bool {
        self.0[COUNTS[0]..COUNTS[0] + 2] != [0, 0]
    }

    /// Whether the response says that the name has no record of the type, or does not exist. Such a response may contain
    /// aliases that lead to the name without records.
    pub fn is_negative(&self) -> bool {
        records(&self.0).is_some_and(|all| self.is_negative_with(&all))
    }

    fn is_negative_with(&self, all: &[RecordAt]) -> bool {
        let kind = question_end(&self.0).and_then(|end| u16_at(&self.0, end - 4));
        let is_answer = |one: &RecordAt| one.section == 0 && (kind == Some(ANY) || kind == Some(one.kind));
        let has_soa = || all.iter().any(|one| one.section == 1 && one.kind == SOA);
        self.code() == 3 || !self.has_answers() || (!all.iter().any(is_answer) && has_soa())
    }

    /// How long the response may be cached, in seconds. `None` if it must not: errors, and negative answers without an SOA
    /// record.
    pub fn lifetime(&self) -> Option<u32> {
        let all = records(&self.0)?;
        let ttl = |one: &RecordAt| u32_at(&self.0, one.ttl);
        if self.is_truncated() || !matches!(self.code(), 0 | 3) {
            return None;
        }
        let shortest = all.iter().filter(|one| one.section < 2).filter_map(ttl).min();
        if self.is_negative_with(&all) {
            let soa = all.iter().find(|one| one.section == 1 && one.kind == SOA)?;
            let minimum = u32_at(&self.0, soa.end.checked_sub(4)?)?;
            return shortest.map(|shortest| shortest.min(minimum));
        }
        shortest
    }

    /// Reduces the times to live by the time in the cache, in seconds.
    pub fn age(&mut self, seconds: u32) {
        for record in records(&self.0).unwrap_or_default() {
            if let Some(ttl) = u32_at(&self.0, record.ttl) {
                let left = ttl.saturating_sub(seconds).to_be_bytes();
                self.0[record.ttl..record.ttl + 4].copy_from_slice(&left);
            }
        }
    }

    /// Makes this the answer to the query of a client: its id, its flags and the spelling of its question. `query` begins
    /// with a header and one question.
    pub fn answer(&mut self, query: &[u8]) {
        let (Some(end), Some(own)) = (question_end(query), question_end(&self.0)) else { return };
        self.0[..2].copy_from_slice(&query[..2]);
        // An upstream answer is not authoritative, and not verified here.
        self.0[2] = (self.0[2] & !(RECURSION_DESIRED | AUTHORITATIVE)) | (query[2] & RECURSION_DESIRED);
        self.0[3] = (self.0[3] & 0x0f) | RECURSION_AVAILABLE | (query[3] & CHECKING_DISABLED);
        if end == own {
            self.0[HEADER..end].copy_from_slice(&query[HEADER..end]);
        }
    }

    /// Marks the answer as authoritative.
    pub fn set_authoritative(&mut self) {
        self.0[2] |= AUTHORITATIVE;
    }

    /// Completes the message for the client: at most `limit` bytes, with the EDNS record if there is one. Additional records
    /// are omitted first; without other records the message is marked as truncated.
    pub fn finish(mut self, limit: usize, edns: Option<Edns>) -> Vec<u8> {
        let reserved = if edns.is_some() { OPT_BYTES } else { 0 };
        if self.0.len() + reserved > limit {
            self.cut(limit.saturating_sub(reserved));
        }
        if let Some(edns) = edns {
            edns.append(&mut self.0);
        }
        self.0
    }

    /// Removes records from the end, until the message has at most `limit` bytes.
    fn cut(&mut self, limit: usize) {
        let all = records(&self.0).unwrap_or_default();
        let kept = all.iter().take_while(|record| record.end <= limit).count();
        let end = match (kept.checked_sub(1), question_end(&self.0)) {
            (Some(last), _) => all[last].end,
            (None, Some(end)) => end,
            (None, None) => return,
        };
        self.0.truncate(end);
        for section in 0..3 {
            let count = all[..kept].iter().filter(|record| record.section == section).count();
            set_count(&mut self.0, section, count);
        }
        if all[kept..].iter().any(|record| record.section < 2) {
            self.0[2] |= TRUNCATED;
        }
    }
}

/// The EDNS record of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edns {
    /// The largest UDP message that this server accepts.
    pub payload: u16,
    /// The upper eight bits of the response code.
    pub code_high: u8,
    /// Whether the client wants DNSSEC records.
    pub dnssec_ok: bool,
}

impl Edns {
    fn append(self, message: &mut Vec<u8>) {
        let flags = if self.dnssec_ok { 0x80 } else { 0 };
        message.push(0);
        message.extend_from_slice(&OPT.to_be_bytes());
        message.extend_from_slice(&self.payload.to_be_bytes());
        message.extend_from_slice(&[self.code_high, 0, flags, 0, 0, 0]);
        let count = u16_at(message, COUNTS[2]).unwrap_or_default();
        set_count(message, 2, usize::from(count) + 1);
    }
}

/// The end of the question of a message with one question. `None` if it has none, several, or a malformed one.
pub(super) fn question_end(message: &[u8]) -> Option<usize> {
    let end = name_end(message, HEADER)? + 4;
    (u16_at(message, 4)? == 1 && end <= message.len()).then_some(end)
}

/// The positions of all records. `None` if the message is malformed.
fn records(message: &[u8]) -> Option<Vec<RecordAt>> {
    let mut at = question_end(message)?;
    let mut all = Vec::new();
    for (section, count) in COUNTS.into_iter().enumerate() {
        for _ in 0..u16_at(message, count)? {
            let start = at;
            let fields = name_end(message, at)?;
            let kind = u16_at(message, fields)?;
            let end = fields + 10 + usize::from(u16_at(message, fields + 8)?);
            if end > message.len() {
                return None;
            }
            all.push(RecordAt { section, start, ttl: fields + 4, end, kind });
            at = end;
        }
    }
    Some(all)
}

/// The position after a name.
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length if length & 0xc0 == 0 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn u32_at(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn set_count(message: &mut [u8], section: usize, count: usize) {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    message[COUNTS[section]..COUNTS[section] + 2].copy_from_slice(&count.to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests;
