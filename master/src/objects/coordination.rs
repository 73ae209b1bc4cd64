//! Leases.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::ObjectMeta;
use super::values::time;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Lease {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: LeaseSpec,
}

/// `spec` of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// Identity of the holder. Empty if there is none.
    pub holder_identity: Box<str>,
    /// How long the lease is valid after a renewal.
    pub lease_duration_seconds: Option<i64>,
    /// How often the holder has changed.
    pub lease_transitions: i64,
    /// Last renewal, by the clock of the holder.
    #[serde(deserialize_with = "time")]
    pub renew_time: Option<Timestamp>,
}
