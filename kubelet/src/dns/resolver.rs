//! Answers queries: from the index for names of the cluster, otherwise from the cache or from upstream.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Record, RecordType};

use super::cache::{Cache, Key};
use super::index::Index;
use super::query::{Query, Sections};
use super::records::{Answer, Question, Zone};
use super::upstream::Upstreams;
use super::wire::Response;
use crate::cluster::services::ServiceSnapshot;

/// Longest chain of aliases inside the cluster. Longer ones are loops.
const MAX_ALIASES: usize = 8;

/// The DNS data of a node: the zone of the cluster, the cache, and the name servers of the host.
#[derive(Debug)]
pub struct Resolver {
    zone: Zone,
    index: RwLock<Index>,
    /// The addresses at which this node answers.
    addresses: RwLock<Vec<IpAddr>>,
    cache: Mutex<Cache>,
    upstreams: Upstreams,
    /// The number of queries, from which the order of addresses in an answer follows.
    queries: AtomicUsize,
}

/// What a query needs next.
pub(super) enum Step {
    /// The message to send.
    Done(Vec<u8>),
    /// A question to another server.
    Forward(Forward),
}

/// A question to another server.
pub(super) struct Forward {
    /// The aliases that lead to the name.
    aliases: Vec<Record>,
    key: Key,
}

impl Resolver {
    /// A resolver without data.
    pub fn new(zone: Zone) -> Self {
        Self {
            zone,
            index: RwLock::default(),
            addresses: RwLock::default(),
            cache: Mutex::default(),
            upstreams: Upstreams::new(),
            queries: AtomicUsize::new(0),
        }
    }

    /// Applies a snapshot of the cluster's Services.
    pub fn apply(&self, snapshot: Arc<ServiceSnapshot>) {
        self.index.write().unwrap_or_else(PoisonError::into_inner).apply(snapshot);
    }

    /// Sets the addresses at which this node answers.
    pub fn set_addresses(&self, addresses: Vec<IpAddr>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Sets the name servers of the host, the preferred one first, without this server itself. Returns whether they
    /// changed.
    pub fn set_upstreams(&self, mut servers: Vec<SocketAddr>) -> bool {
        let own = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| !own.contains(&server.ip()));
        self.upstreams.set(servers)
    }

    /// Answers a query from memory, or says what to ask another server.
    pub(super) fn begin(&self, query: &Query, is_tcp: bool) -> Step {
        let mut name = query.name.clone();
        let mut aliases = Vec::new();
        let done = |response| Step::Done(query.finish(response, is_tcp));
        let negative = |code, answers, soa| {
            let (authorities, additionals) = (vec![soa], Vec::new());
            done(query.respond(code, Sections { answers, authorities, additionals, is_authoritative: true }))
        };
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let own = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        loop {
            if (self.zone.contains(&name) && !index.is_known()) || aliases.len() > MAX_ALIASES {
                return Step::Done(query.error(ResponseCode::ServFail));
            }
            let question = Question {
                name: &name,
                kind: query.kind,
                limit: query.record_limit(is_tcp),
                rotation: self.queries.fetch_add(1, Ordering::Relaxed),
            };
            match self.zone.answer(&index, &own, &question) {
                Answer::Records { answers: mut found, additionals } => {
                    aliases.append(&mut found);
                    let sections = Sections {
                        answers: aliases,
                        additionals,
                        is_authoritative: true,
                        ..Sections::default()
                    };
                    return done(query.respond(ResponseCode::NoError, sections));
                }
                Answer::Alias(record, target) => {
                    aliases.push(record);
                    if matches!(query.kind, RecordType::CNAME | RecordType::ANY) {
                        let sections =
                            Sections { answers: aliases, is_authoritative: true, ..Sections::default() };
                        return done(query.respond(ResponseCode::NoError, sections));
                    }
                    name = target;
                }
                Answer::NoData(soa) => return negative(ResponseCode::NoError, aliases, soa),
                Answer::NoName(soa) => return negative(ResponseCode::NXDomain, aliases, soa),
                Answer::OtherZone => break,
            }
        }
        drop((index, own));
        let (dnssec_ok, checking_disabled) = (query.dnssec_ok(), query.checking_disabled);
        let key = Key { name, kind: query.kind, dnssec_ok, checking_disabled };
        match self.cache().get(&key, Instant::now()) {
            Some(response) => done(join(query, aliases, response)),
            None => Step::Forward(Forward { aliases, key }),
        }
    }

    /// Asks another server, and caches its response.
    pub(super) async fn forward(&self, query: &Query, forward: Forward, is_tcp: bool) -> Vec<u8> {
        let Forward { aliases, key } = forward;
        match self.upstreams.ask(&key).await {
            Ok(response) => {
                self.cache().put(key, &response, Instant::now());
                query.finish(join(query, aliases, response), is_tcp)
            }
            Err(error) => {
                tracing::debug!(name = %key.name, kind = %key.kind, %error, "cannot resolve a name");
                query.error(ResponseCode::ServFail)
            }
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The response to a query from the aliases that lead to a name, and the upstream response for that name.
fn join(query: &Query, mut aliases: Vec<Record>, response: Response) -> Option<Response> {
    if aliases.is_empty() {
        return Some(query.adopt(response));
    }
    let message = Message::from_vec(response.bytes()).ok()?;
    aliases.extend(message.answers);
    let sections = Sections { answers: aliases, authorities: message.authorities, ..Sections::default() };
    query.respond(message.metadata.response_code, sections)
}

#[cfg(test)]
pub(super) mod tests;
