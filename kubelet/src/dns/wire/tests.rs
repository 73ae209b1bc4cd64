//! Tests of truncation, ageing, and malformed messages.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::Ipv4Addr;

use hickory_proto::op::{Edns as HickoryEdns, Message, OpCode, Query};
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use proptest::prelude::*;

use super::{Edns, Response};

/// A message about a name, with this number of addresses.
pub(crate) fn message(name: &str, addresses: u32, ttl: u32) -> Message {
    let name: Name = name.parse().unwrap();
    let mut message = Message::response(7, OpCode::Query);
    message.add_query(Query::query(name.clone(), RecordType::A));
    let address = |number| RData::A(A(Ipv4Addr::from(0x0a00_0000 + number)));
    message.add_answers((0..addresses).map(|number| Record::from_rdata(name.clone(), ttl, address(number))));
    message
}

/// A response about a name, with this number of addresses.
pub(crate) fn response(name: &str, addresses: u32, ttl: u32) -> Response {
    Response::parse(message(name, addresses, ttl).to_vec().unwrap()).unwrap()
}

/// The time to live of the first answer.
pub(crate) fn ttl_of(response: &Response) -> u32 {
    Message::from_vec(response.bytes()).unwrap().answers[0].ttl
}

const EDNS: Edns = Edns { payload: 1232, code_high: 0, dnssec_ok: true };

#[test]
fn a_large_response_keeps_the_records_that_fit() {
    for (limit, edns, kept) in
        [(512, None, 30), (512, Some(EDNS), 29), (1232, Some(EDNS), 74), (65_535, None, 100)]
    {
        let bytes = response("a.example.", 100, 9).finish(limit, edns);
        assert!(bytes.len() <= limit);
        let message = Message::from_vec(&bytes).unwrap();
        assert_eq!((message.answers.len(), message.metadata.truncation), (kept, kept < 100), "{limit}");
        assert_eq!(message.edns.map(|edns| edns.flags().dnssec_ok), edns.map(|_| true));
    }
}

#[test]
fn additional_records_are_omitted_without_a_mark() {
    let mut message = message("a.example.", 20, 9);
    message.insert_additionals(message.answers.clone());
    let response = Response::parse(message.to_vec().unwrap()).unwrap();
    let short = Message::from_vec(&response.finish(512, None)).unwrap();
    assert_eq!((short.answers.len(), short.metadata.truncation), (20, false));
    assert!(short.additionals.len() < 20);
}

#[test]
fn the_edns_record_of_a_server_is_not_passed_on() {
    let mut message = message("a.example.", 1, 9);
    message.set_edns(HickoryEdns::new());
    let response = Response::parse(message.to_vec().unwrap()).unwrap();
    assert!(Message::from_vec(response.bytes()).unwrap().edns.is_none());
    assert!(Message::from_vec(&response.finish(512, Some(EDNS))).unwrap().edns.is_some());
}

#[test]
fn the_lifetime_is_the_shortest_time_to_live() {
    let mut two = message("a.example.", 2, 60);
    two.answers[1].ttl = 7;
    let mut response = Response::parse(two.to_vec().unwrap()).unwrap();
    assert_eq!(response.lifetime(), Some(7));
    response.age(10);
    assert_eq!((response.lifetime(), ttl_of(&response)), (Some(0), 50));
}

#[test]
fn an_alias_for_a_name_without_records_has_the_lifetime_of_a_negative_response() {
    let mut message = message("a.example.", 0, 60);
    let target: Name = "b.example.".parse().unwrap();
    let alias = RData::CNAME(CNAME(target.clone()));
    message.add_answer(Record::from_rdata("a.example.".parse().unwrap(), 3600, alias));
    let parsed = |message: &Message| Response::parse(message.to_vec().unwrap()).unwrap();
    let alone = parsed(&message);
    assert_eq!((alone.is_negative(), alone.lifetime()), (false, Some(3600)));
    let soa = SOA::new(target.clone(), target.clone(), 1, 2, 3, 4, 5);
    message.insert_authorities(vec![Record::from_rdata(target.clone(), 900, RData::SOA(soa))]);
    let negative = parsed(&message);
    assert_eq!((negative.is_negative(), negative.lifetime()), (true, Some(5)));
    message.add_answer(Record::from_rdata(target, 60, RData::A(A(Ipv4Addr::LOCALHOST))));
    let positive = parsed(&message);
    assert_eq!((positive.is_negative(), positive.lifetime()), (false, Some(60)));
}

#[test]
fn malformed_messages_are_rejected() {
    let good = message("a.example.", 3, 9).to_vec().unwrap();
    for length in 0..good.len() {
        assert_eq!(Response::parse(good[..length].to_vec()), None, "{length} bytes");
    }
    let mut pointless = good.clone();
    pointless[12] = 0x80;
    assert_eq!(Response::parse(pointless), None);
}

proptest! {
    #[test]
    fn no_message_causes_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), limit in 0_usize..600) {
        if bytes.len() > 6 {
            bytes[4..6].copy_from_slice(&[0, 1]);
        }
        if let Some(mut response) = Response::parse(bytes.clone()) {
            response.lifetime();
            response.age(3);
            response.answer(&bytes);
            response.finish(limit, Some(EDNS));
        }
    }
}
