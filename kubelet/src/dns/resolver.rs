//! Answers queries: from the index for names of the cluster, otherwise from the cache or from upstream.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Record, RecordType};

use super::cache::{Cache, Key};
use super::index::Index;
use super::query::{Query, Sections};
use super::records::{Answer, Question, Zone};
use super::upstream::{ForwardError, Upstreams};
use super::wire::Response;
use crate::cluster::services::ServiceSnapshot;

/// Longest chain of aliases inside the cluster. Longer ones are loops.
const MAX_ALIASES: usize = 8;

/// A question to another server that has no response yet.
type Pending = BoxFuture<'static, Result<Response, Arc<ForwardError>>>;

/// The DNS data of a node: the zone of the cluster, the cache, and the name servers of the host.
pub struct Resolver {
    zone: Zone,
    index: RwLock<Index>,
    /// The addresses at which this node answers.
    addresses: RwLock<Vec<IpAddr>>,
    cache: Arc<Mutex<Cache>>,
    upstreams: Arc<Upstreams>,
    /// Questions that wait for another server. Clients with the same question share one.
    pending: Mutex<HashMap<Key, WeakShared<Pending>>>,
    /// Whether a loop was reported.
    has_reported_loop: AtomicBool,
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
            cache: Arc::default(),
            upstreams: Arc::new(Upstreams::new()),
            pending: Mutex::default(),
            has_reported_loop: AtomicBool::new(false),
            queries: AtomicUsize::new(0),
        }
    }

    /// Applies a snapshot of the cluster's Services.
    pub fn apply(&self, snapshot: Arc<ServiceSnapshot>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let was_known = index.is_known();
        index.apply(snapshot);
        if index.is_known() && !was_known {
            // Until now, other servers answered for the addresses of Services.
            self.forget();
        }
    }

    /// Forgets upstream responses, also those that are still to come.
    fn forget(&self) {
        lock(&self.cache).clear();
        lock(&self.pending).clear();
    }

    /// Sets the addresses at which this node answers.
    pub fn set_addresses(&self, addresses: Vec<IpAddr>) {
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The servers without this server itself.
    pub fn others(&self, mut servers: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let own = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|server| !own.contains(&server.ip()));
        servers
    }

    /// Sets the name servers of the host, the preferred one first. Returns whether they changed. Other servers may know
    /// other names, so a change empties the cache.
    pub fn set_upstreams(&self, servers: Vec<SocketAddr>) -> bool {
        let is_changed = self.upstreams.set(servers);
        if is_changed {
            self.forget();
        }
        is_changed
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
            let is_unknown =
                !index.is_known() && self.zone.contains(&name) && self.zone.needs_services(&name);
            if is_unknown || aliases.len() > MAX_ALIASES {
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
        match lock(&self.cache).get(&key, Instant::now()) {
            Some(response) => done(join(query, aliases, response)),
            None => Step::Forward(Forward { aliases, key }),
        }
    }

    /// Asks another server for a client, and caches its response.
    pub(super) async fn forward(
        &self,
        query: &Query,
        forward: Forward,
        client: IpAddr,
        is_tcp: bool,
    ) -> Vec<u8> {
        let Forward { aliases, key } = forward;
        let (response, is_shared) = self.ask(&key);
        let response = response.await;
        self.remove_pending(&key);
        match response {
            Ok(response) => query.finish(join(query, aliases, response), is_tcp),
            Err(error) => {
                tracing::debug!(name = %key.name, kind = %key.kind, %error, "cannot resolve a name");
                if is_shared {
                    self.report_loop(&key, client);
                }
                query.error(ResponseCode::ServFail)
            }
        }
    }

    /// Asks another server, or joins a client that already does. Returns whether it joined.
    fn ask(&self, key: &Key) -> (Shared<Pending>, bool) {
        let mut pending = lock(&self.pending);
        if let Some(response) = pending.get(key).and_then(WeakShared::upgrade) {
            return (response, true);
        }
        let (upstreams, cache, asked) = (self.upstreams.clone(), self.cache.clone(), key.clone());
        let generation = lock(&cache).generation();
        let ask = async move {
            let response = upstreams.ask(&asked).await.map_err(Arc::new)?;
            lock(&cache).put(asked, &response, generation, Instant::now());
            Ok(response)
        };
        let response = ask.boxed().shared();
        if let Some(weak) = response.downgrade() {
            pending.insert(key.clone(), weak);
        }
        (response, false)
    }

    /// Removes a question, unless another client still waits for it.
    fn remove_pending(&self, key: &Key) {
        let mut pending = lock(&self.pending);
        if pending.get(key).is_some_and(|weak| weak.upgrade().is_none()) {
            pending.remove(key);
        }
    }

    /// Warns if a server of the host seems to forward questions to this server. Such a question waits for itself. A pod on
    /// the host network has an own address too, so this is not certain.
    fn report_loop(&self, key: &Key, client: IpAddr) {
        let own = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        if own.contains(&client) && !self.has_reported_loop.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                name = %key.name, %client,
                "a program of this node asked for a name that the DNS server was resolving, and no server answered: \
                 the name servers in resolv.conf must not forward to the DNS server of the node"
            );
        }
    }
}

/// Locks data that no panic leaves inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
