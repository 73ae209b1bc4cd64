//! Requests for certificates that nobody has decided on are few: so many of one node, so many in all; and who has not said
//! who he is asks to be a node, and for nothing else. Strangers are counted apart, so that they crowd out nobody but each other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::strategy::Json;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::store::{ChangeKind, Memory, Scope, TooOld, Watcher};
use apiserver::{Identity, Status};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::pki::{Request, Signer, node};

/// The name of requests in the store.
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// Undecided requests of one node: one for each of its two certificates, and what is left of tries that were cut off.
const MOST_OF_ONE: usize = 10;
/// Undecided requests in all of strangers, and of everybody else: two for each of 5,000 nodes.
const MOST: usize = 10_000;

/// The bound, and what it is counted by.
#[derive(Debug)]
pub struct Undecided {
    followed: Mutex<Followed>,
}

/// Who asks for what is undecided; never older than the cache it follows.
#[derive(Debug)]
struct Followed {
    cache: Memory,
    watcher: Option<Watcher>,
    asking: HashMap<String, Asking>,
    counts: HashMap<Asking, usize>,
    /// Of all of them, those of strangers.
    strangers: usize,
}

/// For whom a request counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asking {
    is_stranger: bool,
    who: String,
}

impl Undecided {
    /// Counts what is in that cache.
    pub fn new(cache: Memory) -> Self {
        let (asking, counts) = (HashMap::new(), HashMap::new());
        Self { followed: Mutex::new(Followed { cache, watcher: None, asking, counts, strangers: 0 }) }
    }
}

impl Followed {
    fn catch_up(&mut self) {
        if self.take_in().is_ok() {
            return;
        }
        (self.asking, self.counts, self.strangers) = (HashMap::new(), HashMap::new(), 0);
        let listing = self.cache.list(REQUESTS, &Scope::All);
        self.watcher = self.cache.watch(REQUESTS, Scope::All, listing.revision).ok();
        for object in listing.objects {
            self.put(object.name(), &object.decode());
        }
    }

    fn take_in(&mut self) -> Result<(), Option<TooOld>> {
        loop {
            let watcher = self.watcher.as_mut().ok_or(None)?;
            let changes = watcher.ready().map_err(Some)?;
            if changes.is_empty() {
                return Ok(());
            }
            for change in changes {
                let object = &change.object;
                match change.kind {
                    ChangeKind::Put => self.put(object.name(), &object.decode()),
                    ChangeKind::Deleted => self.remove(object.name()),
                }
            }
        }
    }

    fn put(&mut self, name: &str, request: &Json) {
        self.remove(name);
        if is_undecided(request) {
            let asking = asking(request, read(request).ok().as_ref());
            *self.counts.entry(asking.clone()).or_default() += 1;
            self.strangers += usize::from(asking.is_stranger);
            self.asking.insert(name.to_owned(), asking);
        }
    }

    /// How many there are of its like: of strangers, or of everybody else.
    fn alike(&self, asking: &Asking) -> usize {
        if asking.is_stranger { self.strangers } else { self.asking.len().saturating_sub(self.strangers) }
    }

    fn remove(&mut self, name: &str) {
        let Some(asking) = self.asking.remove(name) else { return };
        self.strangers = self.strangers.saturating_sub(usize::from(asking.is_stranger));
        if let Some(count) = self.counts.get_mut(&asking) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&asking);
            }
        }
    }
}

fn is_undecided(request: &Json) -> bool {
    let status = request.get("status");
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions.is_none_or(Vec::is_empty)
}

fn spec<'a>(request: &'a Json, field: &str) -> Option<&'a Value> {
    request.get("spec")?.get(field)
}

fn read(request: &Json) -> Result<Request, String> {
    let text = spec(request, "request").and_then(Value::as_str).unwrap_or_default();
    Request::read(&STANDARD.decode(text).map_err(|error| error.to_string())?)
}

/// For whom a request counts: the node that it names, or who sends it.
fn asking(request: &Json, read: Option<&Request>) -> Asking {
    let node = read.and_then(|read| node::of_user(&read.common_name)).map(|node| format!("the node {node}"));
    let user = spec(request, "username").and_then(Value::as_str).unwrap_or_default();
    let is_stranger = user == Identity::anonymous().user;
    Asking { is_stranger, who: node.unwrap_or_else(|| user.to_owned()) }
}

/// What somebody asks who has not said who he is: to be a node.
fn of_stranger(request: &Json, read: &Result<Request, String>) -> Result<(), String> {
    let text = |field: &str| spec(request, field).and_then(Value::as_str).unwrap_or_default();
    if Signer::of(text("signerName")) != Some(Signer::NodeClient) {
        return Err(
            "who has not said who he is may ask kubernetes.io/kube-apiserver-client-kubelet alone".to_owned()
        );
    }
    let usages = spec(request, "usages").and_then(Value::as_array).into_iter().flatten();
    let usages: Vec<&str> = usages.filter_map(Value::as_str).collect();
    Signer::NodeClient.check(read.as_ref().map_err(Clone::clone)?, &usages).map(drop)
}

#[async_trait]
impl Admission for Undecided {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let is_new = attempt.operation == Operation::Create && attempt.subresource.is_none();
        if !attempt.is_of(REQUESTS) || !is_new || attempt.user.is_master() {
            return Ok(());
        }
        let read = read(&attempt.object);
        if attempt.user.is_anonymous() {
            of_stranger(&attempt.object, &read)
                .map_err(|why| Status::forbidden(REQUESTS, attempt.name, &why))?;
        }
        let asking = asking(&attempt.object, read.as_ref().ok());
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.catch_up();
        let own = followed.counts.get(&asking).copied().unwrap_or_default();
        let why = if own >= MOST_OF_ONE {
            format!("{own} requests of {} are undecided", asking.who)
        } else if followed.alike(&asking) >= MOST {
            format!("{MOST} requests are undecided")
        } else {
            return Ok(());
        };
        Err(Status::new(
            http::StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            format!("{why}: have them decided (`kubectl certificate approve` or `deny`) or deleted first"),
        ))
    }
}

#[cfg(test)]
mod tests;
