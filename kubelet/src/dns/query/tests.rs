//! Tests of which messages of clients are queries, and of error responses.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::Ipv4Addr;

use hickory_proto::op::{Edns, Message, OpCode, Query as Asked, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use proptest::prelude::*;

use super::{Query, Received, Sections, read};

/// A query for addresses of `a.example.`.
pub(crate) fn message() -> Message {
    let mut message = Message::query();
    message.metadata.id = 77;
    message.metadata.recursion_desired = true;
    message.add_query(Asked::query("a.Example.".parse().unwrap(), RecordType::A));
    message
}

fn received(message: &Message) -> Received {
    read(&message.to_vec().unwrap())
}

#[track_caller]
fn query(message: &Message) -> Query {
    let Received::Query(query) = received(message) else { panic!("it is no query") };
    query
}

#[track_caller]
fn error(message: &Message) -> Message {
    let Received::Error(bytes) = received(message) else { panic!("it is no error") };
    let error = Message::from_vec(&bytes).unwrap();
    assert_eq!((error.metadata.id, error.metadata.recursion_desired), (77, true));
    error
}

#[test]
fn the_size_of_a_udp_response_follows_from_edns() {
    let plain = query(&message());
    assert_eq!((plain.limit(false), plain.limit(true), plain.dnssec_ok()), (512, 65_535, false));
    for (payload, limit) in [(100, 512), (900, 900), (4096, 1232)] {
        let mut edns = Edns::new();
        edns.set_max_payload(payload).set_dnssec_ok(true);
        let mut message = message();
        message.set_edns(edns);
        let query = query(&message);
        assert_eq!((query.limit(false), query.dnssec_ok()), (limit, true));
    }
}

#[test]
fn a_response_is_not_answered() {
    let mut response = message();
    response.metadata.message_type = hickory_proto::op::MessageType::Response;
    assert!(matches!(received(&response), Received::Ignored));
    assert!(matches!(read(&[0; 11]), Received::Ignored));
}

#[test]
fn unsupported_queries_get_the_error_of_their_rfc() {
    let code = |change: fn(&mut Message)| {
        let mut message = message();
        change(&mut message);
        error(&message).metadata.response_code
    };
    assert_eq!(code(|m| m.metadata.op_code = OpCode::Notify), ResponseCode::NotImp);
    assert_eq!(code(|m| m.queries[0].query_class = DNSClass::CH), ResponseCode::Refused);
    assert_eq!(code(|m| m.queries[0].query_type = RecordType::AXFR), ResponseCode::Refused);
    assert_eq!(code(|m| drop(m.queries.pop())), ResponseCode::FormErr);
    assert_eq!(code(|m| m.queries.push(m.queries[0].clone())), ResponseCode::FormErr);
    let newer = |m: &mut Message| {
        let mut edns = Edns::new();
        edns.set_version(1);
        m.set_edns(edns);
    };
    // The crate has two names for this code.
    assert_eq!(u16::from(code(newer)), u16::from(ResponseCode::BADVERS));
}

#[test]
fn additional_records_do_not_truncate_a_response_over_tcp() {
    let query = query(&message());
    let address = |number| Record::from_rdata(query.name.clone(), 5, RData::A(A(Ipv4Addr::from(number))));
    let records = |count: u32| (0..count).map(address).collect::<Vec<_>>();
    let sections = Sections { answers: records(2000), additionals: records(2000), ..Sections::default() };
    let response = query.respond(ResponseCode::NoError, sections);
    let response = Message::from_vec(&query.finish(response, true)).unwrap();
    assert_eq!((response.answers.len(), response.metadata.truncation), (2000, false));
}

#[test]
fn a_malformed_query_is_a_format_error() {
    let mut bytes = message().to_vec().unwrap();
    bytes.truncate(bytes.len() - 3);
    let Received::Error(response) = read(&bytes) else { panic!("it is no error") };
    assert_eq!((response[3] & 0x0f, response.len()), (1, 12));
}

proptest! {
    #[test]
    fn no_message_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        match read(&bytes) {
            Received::Query(query) => drop(query.error(ResponseCode::ServFail)),
            Received::Error(response) => assert!(response[2] & 0x80 != 0),
            Received::Ignored => {}
        }
    }
}
