//! Queries of clients: checks of their format, and responses with the client's id, flags and size limit. Pure.

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};

use super::wire::{Edns, HEADER, Response, TRUNCATED, question_end};

/// The largest UDP message without EDNS in bytes (RFC 1035).
const UDP_BYTES: u16 = 512;
/// The largest UDP message with EDNS in bytes. It fits into a packet of every network, so that no fragment is lost (DNS
/// Flag Day 2020).
pub(super) const EDNS_BYTES: u16 = 1232;
/// The largest message over TCP in bytes; the length before it has 16 bits.
pub(super) const TCP_BYTES: usize = u16::MAX as usize;
/// The smallest record in bytes: a compressed name, an IPv4 address, and the fields between them.
const MIN_RECORD_BYTES: usize = 16;
/// Maximum length of a query in bytes. A name with EDNS options needs a tenth of it.
pub(super) const MAX_QUERY_BYTES: usize = 4096;

/// A message of a client.
#[derive(Debug)]
pub(super) enum Received {
    /// A query to answer.
    Query(Query),
    /// The response to a query that cannot be answered.
    Error(Vec<u8>),
    /// Not a query. Responses to such messages could lead to loops.
    Ignored,
}

/// A query with one question.
#[derive(Debug)]
pub(super) struct Query {
    /// Header and question, as the client sent them.
    bytes: Vec<u8>,
    pub name: Name,
    pub kind: RecordType,
    pub checking_disabled: bool,
    edns: Option<Edns>,
    /// The largest UDP response in bytes.
    udp_bytes: usize,
}

/// Reads a message of a client.
pub(super) fn read(bytes: &[u8]) -> Received {
    let is_response = |flags: u8| flags & 0x80 != 0;
    if bytes.len() < HEADER || is_response(bytes[2]) {
        return Received::Ignored;
    }
    if (bytes[2] >> 3) & 0x0f != u8::from(OpCode::Query) {
        return Received::Error(error(bytes, ResponseCode::NotImp, None));
    }
    let (Some(end), Ok(message)) = (question_end(bytes), Message::from_vec(bytes)) else {
        return Received::Error(error(bytes, ResponseCode::FormErr, None));
    };
    let [question] = message.queries.as_slice() else {
        return Received::Error(error(bytes, ResponseCode::FormErr, None));
    };
    let edns = message.edns.as_ref().map(|edns| Edns {
        payload: EDNS_BYTES,
        code_high: 0,
        dnssec_ok: edns.flags().dnssec_ok,
    });
    if message.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
        return Received::Error(error(bytes, ResponseCode::BADVERS, edns));
    }
    let is_served = question.query_class == DNSClass::IN
        && !matches!(question.query_type, RecordType::AXFR | RecordType::IXFR | RecordType::OPT);
    if !is_served {
        return Received::Error(error(bytes, ResponseCode::Refused, edns));
    }
    let payload = message.edns.as_ref().map_or(UDP_BYTES, |edns| edns.max_payload());
    Received::Query(Query {
        bytes: bytes[..end].to_vec(),
        name: question.name.clone(),
        kind: question.query_type,
        checking_disabled: message.metadata.checking_disabled,
        edns,
        udp_bytes: payload.clamp(UDP_BYTES, EDNS_BYTES).into(),
    })
}

/// An error response with the id of a query, and its question if there is one.
fn error(bytes: &[u8], code: ResponseCode, edns: Option<Edns>) -> Vec<u8> {
    let end = question_end(bytes);
    let mut response = bytes[..end.unwrap_or(HEADER)].to_vec();
    response[2] = 0x80 | (response[2] & 0x79);
    response[3] = 0x80 | code.low();
    response[4..HEADER].fill(0);
    response[5] = u8::from(end.is_some());
    let edns = edns.map(|edns| Edns { code_high: code.high(), ..edns });
    match Response::parse(response.clone()) {
        Some(complete) => complete.finish(TCP_BYTES, edns),
        None => response,
    }
}

impl Query {
    /// Whether the client wants DNSSEC records.
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// The largest response in bytes.
    pub fn limit(&self, is_tcp: bool) -> usize {
        if is_tcp { TCP_BYTES } else { self.udp_bytes }
    }

    /// More records than a response can contain, so that it is marked as truncated.
    pub fn record_limit(&self, is_tcp: bool) -> usize {
        self.limit(is_tcp) / MIN_RECORD_BYTES + 1
    }

    /// An error response.
    pub fn error(&self, code: ResponseCode) -> Vec<u8> {
        error(&self.bytes, code, self.edns)
    }

    /// A response of these records.
    pub fn respond(&self, code: ResponseCode, sections: Sections) -> Option<Response> {
        let mut message = Message::response(0, OpCode::Query);
        message.metadata.response_code = code;
        message.add_query(hickory_proto::op::Query::query(self.name.clone(), self.kind));
        message.insert_answers(sections.answers);
        message.insert_authorities(sections.authorities);
        message.insert_additionals(sections.additionals);
        let mut bytes = message.to_vec().ok()?;
        if bytes[2] & TRUNCATED != 0 {
            // The client does not have to know that additional records are missing.
            message.additionals.clear();
            bytes = message.to_vec().ok()?;
        }
        let mut response = Response::parse(bytes)?;
        response.answer(&self.bytes);
        if sections.is_authoritative {
            response.set_authoritative();
        }
        Some(response)
    }

    /// Rewrites an upstream response for this client.
    pub fn adopt(&self, mut response: Response) -> Response {
        response.answer(&self.bytes);
        response
    }

    /// Completes a response, so that it fits the client's limits. `None` stands for one that could not be encoded.
    pub fn finish(&self, response: Option<Response>, is_tcp: bool) -> Vec<u8> {
        match response {
            Some(response) => response.finish(self.limit(is_tcp), self.edns),
            None => self.error(ResponseCode::ServFail),
        }
    }
}

/// The records of a response.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub additionals: Vec<Record>,
    /// Whether this server is responsible for the name.
    pub is_authoritative: bool,
}

#[cfg(test)]
pub(super) mod tests;
