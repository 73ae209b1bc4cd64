//! The network of pods that the kubelet makes itself, in network namespaces of the tests' own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rules;
