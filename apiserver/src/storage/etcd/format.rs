//! Says in an etcd that it is a store of this kind, and refuses one that is not.

use bytes::Bytes;

use super::messages::{RangeRequest, RangeResponse};
use super::translate::bounds;
use super::{Inner, RANGE, failure};
use crate::storage::{Error, Expected, Outcome, Transaction};

/// Where the format is written. No range and no watch shows it: keys of objects are text without control characters.
const KEY: &str = "\0coracle/format";
/// The format written here.
const KNOWN: u64 = 1;
/// What all keys of objects begin with, here and in the etcd of a stock server.
const OBJECTS: &str = "/registry/";

/// Finds the format that is known here, or writes it into an etcd that holds no objects.
pub(super) async fn claim(store: &Inner) -> Result<(), Error> {
    if let Some(found) = first(store, (Bytes::from_static(KEY.as_bytes()), Bytes::new())).await? {
        return check(store, &found);
    }
    if first(store, bounds(OBJECTS, None)).await?.is_some() {
        return Err(Error::Invalid(format!(
            "the etcd at {} holds objects under {OBJECTS} that another program wrote; nothing was changed: give the \
             master an etcd of its own",
            store.shared.store
        )));
    }
    let claim = Transaction::put(KEY, Expected::Absent, Bytes::from(KNOWN.to_string()));
    match store.commit(&claim).await? {
        Outcome::Committed { .. } => Ok(()),
        // Another master was a moment faster.
        Outcome::Conflict { current, .. } => {
            check(store, &current.map(|entry| entry.value).unwrap_or_default())
        }
    }
}

fn check(store: &Inner, found: &[u8]) -> Result<(), Error> {
    let file = || store.shared.store.clone().into();
    let number = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
    match number {
        Some(found) if found > KNOWN => Err(Error::Newer { file: file(), found, known: KNOWN }),
        Some(_) => Ok(()),
        None => Err(Error::Damaged { file: file(), reason: "its format is no number".to_owned() }),
    }
}

/// The value of the first key from one up to another; without another, of that one key.
async fn first(store: &Inner, (key, range_end): (Bytes, Bytes)) -> Result<Option<Bytes>, Error> {
    let request = RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() };
    let response: Result<RangeResponse, _> = store.ask(RANGE, &request).await;
    let response = response.map_err(|failed| failure::error(&store.shared.store, &failed))?;
    Ok(response.kvs.into_iter().next().map(|found| found.value))
}
