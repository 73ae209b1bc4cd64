//! Format marker in etcd. It also shows that no other program uses the etcd.

use bytes::Bytes;

use super::messages::{RangeRequest, RangeResponse};
use super::translate::bounds;
use super::{Inner, RANGE, failure};
use crate::storage::{Error, Expected, Outcome, Transaction};

/// Key of the format marker. No range or watch of objects includes the marker, because object keys contain no
/// control characters.
const KEY: &str = "\0coracle/format";
/// Current format version.
const CURRENT_FORMAT: u64 = 1;
/// Prefix of object keys, the same as in stock clusters.
const OBJECTS: &str = "/registry/";

/// Checks the format marker, or creates it in an etcd without objects.
pub(super) async fn claim(store: &Inner) -> Result<(), Error> {
    if let Some(found) = first(store, (Bytes::from_static(KEY.as_bytes()), Bytes::new())).await? {
        return check(store, &found);
    }
    if first(store, bounds(OBJECTS, None)).await?.is_some() {
        return Err(Error::Invalid(format!(
            "the etcd at {} holds objects under {OBJECTS} that another program wrote; nothing was changed: use a \
             separate etcd for the master",
            store.shared.store
        )));
    }
    let claim = Transaction::put(KEY, Expected::Absent, Bytes::from(CURRENT_FORMAT.to_string()));
    match store.commit(&claim).await? {
        Outcome::Committed { .. } => Ok(()),
        // Another instance has created it concurrently.
        Outcome::Conflict { current, .. } => {
            check(store, &current.map(|entry| entry.value).unwrap_or_default())
        }
    }
}

fn check(store: &Inner, found: &[u8]) -> Result<(), Error> {
    let file = || store.shared.store.clone().into();
    let number = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
    match number {
        Some(found) if found > CURRENT_FORMAT => {
            Err(Error::Newer { file: file(), found, known: CURRENT_FORMAT })
        }
        Some(_) => Ok(()),
        None => Err(Error::Damaged { file: file(), reason: "its format marker is not a number".to_owned() }),
    }
}

/// The value of the first key in a range. With an empty end, the range is that key alone.
async fn first(store: &Inner, (key, range_end): (Bytes, Bytes)) -> Result<Option<Bytes>, Error> {
    let request = RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() };
    let response: Result<RangeResponse, _> = store.send_request(RANGE, &request).await;
    let response = response.map_err(|failed| failure::error(&store.shared.store, &failed))?;
    Ok(response.kvs.into_iter().next().map(|found| found.value))
}
