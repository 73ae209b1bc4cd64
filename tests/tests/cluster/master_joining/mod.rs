//! Tests of node joining with `openssl`, `kubectl` and a plain HTTP client.

mod bootstrap;
mod by_hand;
mod complaints;
mod flood;
mod machine;
mod modes;
mod policies;
mod rotation;
mod stock;
