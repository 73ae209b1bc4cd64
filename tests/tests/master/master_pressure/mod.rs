//! Overload tests: too many requests, slow clients and invalid requests. The master reports errors and serves other
//! clients.

mod bed;
mod crowds;
mod full_disk;
mod heavy;
mod large;
mod nonsense;
mod slow;
mod stalled;
mod watches;
