//! The master as its clients see it: objects, users, controllers, scheduler, storage, overload, and clients other than ours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod kube_rs;
mod master_addons;
mod master_api;
mod master_auth;
mod master_check;
mod master_controllers;
mod master_crds;
mod master_kills;
mod master_kinds;
mod master_kubectl;
mod master_lifecycle;
mod master_matrix;
mod master_nodes;
mod master_page;
mod master_pressure {
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
}
mod master_python;
mod master_scheduler;
mod master_schemathesis;
mod master_stock;
mod master_store;
mod master_tables;
mod master_to_nodes {
    //! Node access through the master: logs, commands, attach and port forwarding of pods on a real kubelet, with every
    //! kubectl, and mutual authentication.

    mod away;
    mod bed;
    mod exec;
    mod identity;
    mod logs;
    mod ports;
    mod proxy;
    mod stats;
    mod top;
}
mod master_up;
mod spdy;
