//! Cache of upstream responses, bounded by their size. Pure: the time is an argument.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::{Name, RecordType};

use super::wire::Response;

/// Maximum size of all responses in bytes. A typical response has 100 bytes, so this is room for about 3,000 names.
const MAX_BYTES: usize = 1 << 20;
/// The memory that an entry needs beside its message, in bytes.
const ENTRY_BYTES: usize = 256;
/// A larger response is not cached, so that a few names cannot evict all others.
const MAX_MESSAGE: usize = 8 * 1024;
/// Longest time in the cache. A wrong record upstream, once corrected, is wrong here for at most this time.
const MAX_LIFETIME: Duration = Duration::from_secs(300);
/// Longest time that a negative answer is cached, as in the default configuration of CoreDNS. A name that was missing
/// is often about to appear.
const MAX_NEGATIVE_LIFETIME: Duration = Duration::from_secs(30);

/// What a response depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The name. Names are compared without regard to case.
    pub name: Name,
    pub kind: RecordType,
    /// Whether the client wants DNSSEC records.
    pub dnssec_ok: bool,
    /// Whether the client verifies DNSSEC itself.
    pub checking_disabled: bool,
}

#[derive(Debug)]
struct Entry {
    response: Response,
    stored: Instant,
    expires: Instant,
    /// The key in [`Cache::order`].
    number: u64,
}

/// The cache. When it is full, the oldest response is removed.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<Arc<Key>, Entry>,
    /// The keys in the order in which responses were stored.
    order: BTreeMap<u64, Arc<Key>>,
    next: u64,
    bytes: usize,
    generation: u64,
}

impl Cache {
    /// The response to this question, with the times to live that are left.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<Response> {
        let entry = self.entries.get(key)?;
        if now >= entry.expires {
            self.remove(key);
            return None;
        }
        let mut response = entry.response.clone();
        let age = now.saturating_duration_since(entry.stored).as_secs();
        response.age(u32::try_from(age).unwrap_or(u32::MAX));
        Some(response)
    }

    /// The number of times that the cache was cleared.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Removes all responses, because they may be wrong now.
    pub fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    /// Stores a response, if it may be cached, and if the cache was not cleared since `generation`.
    pub fn put(&mut self, key: Key, response: &Response, generation: u64, now: Instant) {
        if generation != self.generation {
            return;
        }
        let limit = if response.is_negative() { MAX_NEGATIVE_LIFETIME } else { MAX_LIFETIME };
        let lifetime = response.lifetime().map(|seconds| Duration::from_secs(seconds.into()).min(limit));
        let Some(lifetime) = lifetime.filter(|lifetime| !lifetime.is_zero()) else { return };
        if response.bytes().len() > MAX_MESSAGE {
            return;
        }
        self.remove(&key);
        self.bytes += size(response);
        while self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        let (key, number) = (Arc::new(key), self.next);
        self.next += 1;
        self.order.insert(number, key.clone());
        let entry = Entry { response: response.clone(), stored: now, expires: now + lifetime, number };
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.number);
            self.bytes -= size(&entry.response);
        }
    }
}

fn size(response: &Response) -> usize {
    response.bytes().len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    //! Tests of lifetimes and of the limit.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::time::{Duration, Instant};

    use hickory_proto::rr::RecordType;

    use super::super::wire::tests::{response, ttl_of};
    use super::{Cache, Key, MAX_BYTES};

    fn key(name: &str) -> Key {
        let name = name.parse().unwrap();
        Key { name, kind: RecordType::A, dnssec_ok: false, checking_disabled: false }
    }

    #[test]
    fn a_response_expires_with_its_time_to_live() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.put(key("a.example."), &response("a.example.", 1, 60), 0, now);
        let later = now + Duration::from_secs(59);
        assert_eq!(ttl_of(&cache.get(&key("A.Example."), later).unwrap()), 1, "names ignore case");
        assert_eq!(cache.get(&key("a.example."), now + Duration::from_secs(60)), None);
        assert_eq!((cache.bytes, cache.order.len()), (0, 0));
    }

    #[test]
    fn clients_with_and_without_dnssec_get_different_responses() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.put(key("a.example."), &response("a.example.", 1, 60), 0, now);
        assert_eq!(cache.get(&Key { dnssec_ok: true, ..key("a.example.") }, now), None);
    }

    #[test]
    fn the_oldest_responses_make_room() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for number in 0..20_000 {
            let name = format!("n{number}.example.");
            cache.put(key(&name), &response(&name, 1, 60), 0, now);
            cache.put(key(&name), &response(&name, 2, 60), 0, now);
        }
        assert!(cache.bytes <= MAX_BYTES && cache.bytes > MAX_BYTES / 2);
        assert_eq!(cache.entries.len(), cache.order.len());
        assert_eq!(cache.get(&key("n0.example."), now), None);
        assert!(cache.get(&key("n19999.example."), now).is_some());
    }

    #[test]
    fn a_response_without_a_lifetime_is_not_cached() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.put(key("a.example."), &response("a.example.", 1, 0), 0, now);
        cache.put(key("a.example."), &response("a.example.", 0, 60), 0, now);
        assert_eq!(cache.get(&key("a.example."), now), None);
    }

    #[test]
    fn a_response_to_a_question_from_before_the_cache_was_cleared_is_not_stored() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let generation = cache.generation();
        cache.put(key("a.example."), &response("a.example.", 1, 60), generation, now);
        cache.clear();
        cache.put(key("b.example."), &response("b.example.", 1, 60), generation, now);
        assert_eq!((cache.entries.len(), cache.order.len(), cache.bytes), (0, 0, 0));
        cache.put(key("b.example."), &response("b.example.", 1, 60), cache.generation(), now);
        assert!(cache.get(&key("b.example."), now).is_some());
    }
}
