//! A master that is asked for too much, too slowly, or for nonsense: it says so, serves all others, and goes on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod crowds;
mod full_disk;
mod nonsense;
mod slow;
mod watches;
