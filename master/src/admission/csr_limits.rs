//! Limits on CertificateSigningRequests: number and bytes per class of requester, and the content of anonymous
//! requests.
//!
//! Anonymous requesters, nodes and all other users have separate limits. A flood by one class therefore does not
//! affect the others, and nodes can always renew their certificates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::strategy::Json;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::status::RejectionCause;
use apiserver::watch_cache::{ChangeKind, Object, Scope, TooOld, WatchCache, Watcher};
use apiserver::{Identity, Status};
use async_trait::async_trait;

use crate::objects::{self, CertificateSigningRequest};
use crate::pki::{Request, Signer, node};

/// The resource in the store.
const REQUESTS: &str = "certificatesigningrequests.certificates.k8s.io";
/// Limit for pending requests of one node or user. It allows one for each of a node's two certificates, and some
/// for interrupted retries.
const PENDING_PER_SUBJECT: usize = 10;
/// Limit for requests of one class: two for each of 5,000 nodes.
const REQUESTS_PER_CLASS: usize = 10_000;
/// Limit for the stored bytes of one class. 10,000 requests with RSA keys take about 3 KB each.
const BYTES_PER_CLASS: usize = 32 << 20;
/// Limit for stored requests of one node, including decided ones. The cleaner keeps these for an hour, and longer
/// with a finalizer. A node renews two certificates, and retries a few times.
const STORED_PER_NODE: Used = Used { requests: 100, bytes: 100 * OBJECT_BYTES };
/// Limit for stored requests of one other user, including decided ones. One bootstrap token may join 5,000 nodes
/// within an hour.
const STORED_PER_USER: Used = Used { requests: REQUESTS_PER_CLASS, bytes: BYTES_PER_CLASS };
/// Maximum size of `spec.request` of an anonymous client, decoded. A request with 256 names and an RSA key takes
/// less than 12 KB.
const ANONYMOUS_REQUEST_BYTES: usize = 16 << 10;
/// Maximum size of a stored request of an anonymous client or a node, with `metadata.managedFields`. It allows 16
/// KiB in base64, and 10 KiB for the rest.
const OBJECT_BYTES: usize = 32 << 10;
/// Metadata that an anonymous client may not set, because its size is not limited or it delays deletion.
const RESERVED_METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// The admission plugin that enforces the limits.
#[derive(Debug)]
pub struct CsrLimits {
    usage: Mutex<Usage>,
}

/// The usage of all stored requests. It is updated from the cache before each decision.
#[derive(Debug)]
struct Usage {
    cache: WatchCache,
    watcher: Option<Watcher>,
    requests: HashMap<String, Counts>,
    pending: HashMap<Requester, usize>,
    used: HashMap<Class, Used>,
    /// Pending and decided requests by user, without those of anonymous clients.
    stored: HashMap<String, Used>,
}

/// Classes of requesters, each with its own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// Clients without credentials. All their requests count, even decided ones. A policy may decide as fast as
    /// requests arrive, and the cleaner keeps decided requests for an hour.
    Anonymous,
    /// Nodes that have a certificate. Their pending requests count.
    Node,
    /// All other users, such as users of bootstrap tokens. Their pending requests count.
    Other,
}

/// The subject that a request counts for: the node that it names, or its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requester {
    class: Class,
    subject: String,
}

/// How one stored request counts towards the limits.
#[derive(Debug)]
struct Counts {
    requester: Requester,
    user: String,
    is_pending: bool,
    bytes: usize,
}

/// The number and the bytes of requests of one class or user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    requests: usize,
    bytes: usize,
}

impl CsrLimits {
    /// Creates the plugin, which counts the requests in `cache`.
    pub fn new(cache: WatchCache) -> Self {
        let (requests, pending, used, stored) = <_>::default();
        Self { usage: Mutex::new(Usage { cache, watcher: None, requests, pending, used, stored }) }
    }
}

impl Usage {
    fn catch_up(&mut self) {
        if self.read_changes().is_ok() {
            return;
        }
        (self.requests, self.pending, self.used, self.stored) = <_>::default();
        let listing = self.cache.list(REQUESTS, &Scope::All);
        self.watcher = self.cache.watch(REQUESTS, Scope::All, listing.revision).ok();
        for object in listing.objects {
            self.put(&object);
        }
    }

    fn read_changes(&mut self) -> Result<(), Option<TooOld>> {
        loop {
            let watcher = self.watcher.as_mut().ok_or(None)?;
            let changes = watcher.ready().map_err(Some)?;
            if changes.is_empty() {
                return Ok(());
            }
            for change in changes {
                match change.kind {
                    ChangeKind::Put => self.put(&change.object),
                    ChangeKind::Deleted => self.remove(change.object.name()),
                }
            }
        }
    }

    fn put(&mut self, object: &Object) {
        self.remove(object.name());
        let request: CertificateSigningRequest = objects::decode(object.json());
        let requester = Requester::of(&request, read(&request).ok().as_ref());
        let counts = Counts {
            is_pending: request.status.conditions.is_empty(),
            user: request.spec.username.into(),
            bytes: object.json().len(),
            requester,
        };
        if counts.counts_for_class() {
            self.used.entry(counts.requester.class).or_default().add(counts.bytes);
        }
        if counts.requester.class != Class::Anonymous {
            self.stored.entry(counts.user.clone()).or_default().add(counts.bytes);
        }
        if counts.is_pending {
            *self.pending.entry(counts.requester.clone()).or_default() += 1;
        }
        self.requests.insert(object.name().to_owned(), counts);
    }

    fn remove(&mut self, name: &str) {
        let Some(counts) = self.requests.remove(name) else { return };
        if counts.counts_for_class()
            && let Some(used) = self.used.get_mut(&counts.requester.class)
        {
            used.remove(counts.bytes);
        }
        if let Some(stored) = self.stored.get_mut(&counts.user) {
            stored.remove(counts.bytes);
            if stored.requests == 0 {
                self.stored.remove(&counts.user);
            }
        }
        let Counts { requester, is_pending, .. } = counts;
        if is_pending && let Some(count) = self.pending.get_mut(&requester) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.pending.remove(&requester);
            }
        }
    }

    /// The limit that one more request would exceed, if there is one.
    fn exceeded(&self, requester: &Requester, user: &str, bytes: usize) -> Option<Exceeded> {
        let stored = self.stored.get(user).copied().unwrap_or_default();
        let most = match requester.class {
            // The name of an anonymous request is chosen by its client, so only the limits of the class hold.
            Class::Anonymous => Used { requests: usize::MAX, bytes: usize::MAX },
            Class::Node => STORED_PER_NODE,
            Class::Other => STORED_PER_USER,
        };
        let pending = self.pending.get(requester).copied().unwrap_or_default();
        let used = self.used.get(&requester.class).copied().unwrap_or_default();
        let class = match requester.class {
            Class::Anonymous => "anonymous clients",
            Class::Node => "nodes",
            Class::Other => "users",
        };
        if pending >= PENDING_PER_SUBJECT {
            let message = format!("{pending} requests of {} are undecided", requester.subject);
            return Some(Exceeded { message, cause: Some(RejectionCause::TooManyPendingRequests) });
        }
        let message = if used.requests >= REQUESTS_PER_CLASS {
            format!("there are {REQUESTS_PER_CLASS} requests of {class}")
        } else if used.bytes + bytes > BYTES_PER_CLASS {
            format!("the requests of {class} take {} of {BYTES_PER_CLASS} bytes", used.bytes)
        } else if stored.requests >= most.requests || stored.bytes.saturating_add(bytes) > most.bytes {
            format!("{user} has {} requests of {} bytes, with decided ones", stored.requests, stored.bytes)
        } else {
            return None;
        };
        Some(Exceeded { message, cause: None })
    }
}

/// A limit that a request would exceed.
#[derive(Debug, PartialEq)]
struct Exceeded {
    /// The start of the error message.
    message: String,
    /// The cause, if the kubelet has a remedy for it.
    cause: Option<RejectionCause>,
}

impl Counts {
    /// Whether the request counts for its class. Pending requests do, and all requests of anonymous clients.
    fn counts_for_class(&self) -> bool {
        self.is_pending || self.requester.class == Class::Anonymous
    }
}

impl Used {
    fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Requester {
    fn of(request: &CertificateSigningRequest, read: Option<&Request>) -> Self {
        let user = &*request.spec.username;
        let is_in_nodes = request.spec.groups.iter().any(|group| &**group == node::GROUP);
        let class = if user == Identity::anonymous().user {
            Class::Anonymous
        } else if is_in_nodes && node::of_user(user).is_some() {
            Class::Node
        } else {
            Class::Other
        };
        let node =
            read.and_then(|read| node::of_user(&read.common_name)).map(|node| format!("the node {node}"));
        Self { class, subject: node.unwrap_or_else(|| user.to_owned()) }
    }
}

fn read(request: &CertificateSigningRequest) -> Result<Request, String> {
    Request::read(&request.request().map_err(|error| error.to_string())?)
}

/// Rejects anonymous requests for anything but a node's client certificate, and any metadata except a name.
fn check_anonymous(
    object: &Json,
    request: &CertificateSigningRequest,
    read: &Result<Request, String>,
) -> Result<(), String> {
    let has = |field: &&&str| object.get("metadata").is_some_and(|metadata| metadata.get(**field).is_some());
    if let Some(field) = RESERVED_METADATA.iter().find(has) {
        return Err(format!(
            "anonymous requests may have a name and no other metadata: remove metadata.{field}"
        ));
    }
    let bytes = request.request().map_err(|error| error.to_string())?.len();
    if bytes > ANONYMOUS_REQUEST_BYTES {
        return Err(format!(
            "spec.request has {bytes} bytes; anonymous requests may have {ANONYMOUS_REQUEST_BYTES}"
        ));
    }
    if Signer::of(&request.spec.signer_name) != Some(Signer::NodeClient) {
        return Err(
            "anonymous requests may name the signer kubernetes.io/kube-apiserver-client-kubelet only"
                .to_owned(),
        );
    }
    Signer::NodeClient.check(read.as_ref().map_err(Clone::clone)?, &request.usages()).map(drop)
}

/// Size of the object in bytes as it would be stored. `managed_fields` is its encoded `metadata.managedFields`.
fn stored_bytes(object: &Json, managed_fields: &[u8]) -> usize {
    serde_json::to_vec(object).map_or(0, |json| json.len()) + managed_fields.len()
}

#[async_trait]
impl Admission for CsrLimits {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.operation == Operation::Create && attempt.subresource.is_none();
        if !attempt.is_of(REQUESTS) || !is_new || attempt.user.is_master() {
            return Ok(());
        }
        let forbidden = |why: String| Status::forbidden(REQUESTS, attempt.name, &why);
        let request: CertificateSigningRequest = objects::read(&attempt.object);
        let read = read(&request);
        if attempt.user.is_anonymous() {
            check_anonymous(&attempt.object, &request, &read).map_err(forbidden)?;
        }
        let requester = Requester::of(&request, read.as_ref().ok());
        let bytes = stored_bytes(&attempt.object, attempt.managed_fields.0);
        if requester.class != Class::Other && bytes > OBJECT_BYTES {
            return Err(forbidden(format!(
                "the object has {bytes} bytes; such a request may have {OBJECT_BYTES}"
            )));
        }
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.catch_up();
        let Some(Exceeded { message, cause }) = usage.exceeded(&requester, &request.spec.username, bytes)
        else {
            return Ok(());
        };
        let status = Status::new(
            http::StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            format!(
                "{message}: approve, deny (`kubectl certificate approve|deny`) or delete some, then try again"
            ),
        );
        Err(match cause {
            Some(cause) => status.with_cause(cause),
            None => status,
        })
    }
}

#[cfg(test)]
mod tests;
