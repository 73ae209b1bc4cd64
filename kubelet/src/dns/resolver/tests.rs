//! Tests of aliases across zones, of the cache, and of the time before the Services are known.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Edns, Message, Query as Asked, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::task::JoinSet;

use super::super::query::{Query, Received, read};
use super::super::records::Zone;
use super::super::records::tests::example;
use super::super::upstream::tests::serve;
use super::super::wire::tests::message;
use super::{Resolver, Step};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 244, 1, 7));

/// A resolver that knows the Services of the examples.
pub(crate) fn resolver() -> Resolver {
    let resolver = Resolver::new(Zone::new("cluster.local").unwrap());
    resolver.apply(Arc::new(example()));
    resolver
}

/// The encoded query for a name.
pub(crate) fn encoded(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Asked::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

fn query(name: &str, kind: RecordType) -> Query {
    let Received::Query(query) = read(&encoded(name, kind)) else { panic!("it is no query") };
    query
}

/// The answer from memory; `None` if another server has to be asked.
fn known(resolver: &Resolver, name: &str, kind: RecordType) -> Option<Message> {
    match resolver.begin(&query(name, kind), false) {
        Step::Done(response) => Some(Message::from_vec(&response).unwrap()),
        Step::Forward(_) => None,
    }
}

async fn resolved(resolver: &Resolver, name: &str, kind: RecordType) -> Message {
    let query = query(name, kind);
    let response = match resolver.begin(&query, false) {
        Step::Done(response) => response,
        Step::Forward(forward) => resolver.forward(&query, forward, CLIENT, false).await,
    };
    Message::from_vec(&response).unwrap()
}

fn data(message: &Message) -> Vec<String> {
    message.answers.iter().map(|record| format!("{} {}", record.record_type(), record.data)).collect()
}

#[test]
fn answers_about_the_cluster_are_authoritative_and_negative_ones_have_the_soa_record() {
    let resolver = resolver();
    let found = known(&resolver, "kubernetes.default.svc.cluster.local.", RecordType::A).unwrap();
    let flags = found.metadata;
    assert!(flags.authoritative && flags.recursion_available && flags.recursion_desired && !flags.truncation);
    assert_eq!(data(&found), ["A 10.3.0.1"]);
    for (name, code) in [("x.default", ResponseCode::NXDomain), ("kubernetes.default", ResponseCode::NoError)]
    {
        let name = format!("{name}.svc.cluster.local.");
        let found = known(&resolver, &name, RecordType::AAAA).unwrap();
        assert_eq!((found.metadata.response_code, found.answers.len()), (code, 0), "{name}");
        assert_eq!(found.authorities[0].record_type(), RecordType::SOA);
    }
}

#[test]
fn a_service_may_be_an_alias_for_another_one() {
    let resolver = resolver();
    let found = known(&resolver, "inside.default.svc.cluster.local.", RecordType::A).unwrap();
    assert_eq!(data(&found), ["CNAME kubernetes.default.svc.cluster.local.", "A 10.3.0.1"]);
    let found = known(&resolver, "inside.default.svc.cluster.local.", RecordType::AAAA).unwrap();
    assert_eq!((data(&found).len(), found.authorities.len()), (1, 1));
    let found = known(&resolver, "loop.default.svc.cluster.local.", RecordType::A).unwrap();
    assert_eq!(found.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn the_target_of_an_external_name_is_resolved_upstream() {
    let (mut tasks, resolver) = (JoinSet::new(), resolver());
    let server = serve(&mut tasks, |_, _| message("www.example.com.", 1, 60));
    resolver.set_upstreams(vec![server.await]);
    let name = "Foo.default.svc.cluster.local.";
    assert!(known(&resolver, name, RecordType::A).is_none());
    for _ in 0..2 {
        let found = resolved(&resolver, name, RecordType::A).await;
        assert_eq!(data(&found), ["CNAME www.example.com.", "A 10.0.0.0"]);
        assert_eq!(found.answers[0].name.to_string(), name);
        assert!(known(&resolver, name, RecordType::A).is_some(), "it is in the cache");
    }
    assert_eq!(data(&known(&resolver, name, RecordType::CNAME).unwrap()).len(), 1);
}

#[tokio::test]
async fn an_upstream_response_is_cached_and_passed_on_with_the_terms_of_each_client() {
    let (mut tasks, resolver) = (JoinSet::new(), resolver());
    let server = serve(&mut tasks, |query, _| {
        let mut response = message(&query.queries[0].name.to_string(), 50, 60);
        response.metadata.authoritative = true;
        response.set_edns(Edns::new());
        response
    });
    resolver.set_upstreams(vec![server.await]);
    let found = resolved(&resolver, "a.example.", RecordType::A).await;
    assert!(found.metadata.truncation && !found.metadata.authoritative && found.edns.is_none());
    tasks.shutdown().await;
    let cached = known(&resolver, "A.EXAMPLE.", RecordType::A).unwrap();
    assert_eq!(cached.queries[0].name.to_string(), "A.EXAMPLE.");
    assert_eq!(cached.answers.len(), found.answers.len());
    let failed = resolved(&resolver, "b.example.", RecordType::A).await;
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn a_name_of_a_service_is_denied_only_after_the_services_are_known() {
    let resolver = Resolver::new(Zone::new("cluster.local").unwrap());
    for (name, code) in [
        ("kubernetes.default.svc", ResponseCode::ServFail),
        // Names that a client with search domains tries for a name outside the cluster.
        ("example.com", ResponseCode::NXDomain),
        ("www.example.com.default.svc", ResponseCode::NXDomain),
        ("10-1-2-3.default.pod", ResponseCode::NoError),
    ] {
        let found = known(&resolver, &format!("{name}.cluster.local."), RecordType::A).unwrap();
        assert_eq!(found.metadata.response_code, code, "{name}");
    }
}

#[tokio::test]
async fn other_servers_and_the_first_services_empty_the_cache() {
    let (mut tasks, resolver) = (JoinSet::new(), Resolver::new(Zone::new("cluster.local").unwrap()));
    let server = serve(&mut tasks, |query, _| message(&query.queries[0].name.to_string(), 1, 60)).await;
    resolver.set_upstreams(vec![server]);
    resolved(&resolver, "a.example.", RecordType::A).await;
    let is_cached = || known(&resolver, "a.example.", RecordType::A).is_some();
    assert!(is_cached());
    assert!(!resolver.set_upstreams(vec![server]) && is_cached());
    resolver.apply(Arc::new(example()));
    assert!(!is_cached());
    resolved(&resolver, "a.example.", RecordType::A).await;
    resolver.apply(Arc::new(example()));
    assert!(is_cached());
    assert!(resolver.set_upstreams(vec!["127.0.0.53:53".parse().unwrap()]) && !is_cached());
}

#[tokio::test]
async fn clients_with_the_same_question_share_one() {
    let (mut tasks, resolver) = (JoinSet::new(), resolver());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let server = serve(&mut tasks, move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        message("a.example.", 1, 0)
    });
    resolver.set_upstreams(vec![server.await]);
    let ask = || resolved(&resolver, "a.example.", RecordType::A);
    let (one, other) = tokio::join!(ask(), ask());
    assert_eq!((data(&one), data(&other)), (vec!["A 10.0.0.0".to_owned()], vec!["A 10.0.0.0".to_owned()]));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    ask().await;
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert!(super::lock(&resolver.pending).is_empty());
}

#[test]
fn the_server_does_not_forward_to_itself() {
    let resolver = resolver();
    resolver.set_addresses(vec!["10.244.1.1".parse().unwrap()]);
    let servers = ["10.244.1.1:53", "127.0.0.53:53"].map(|server| server.parse().unwrap()).to_vec();
    assert_eq!(resolver.others(servers), ["127.0.0.53:53".parse().unwrap()]);
}
