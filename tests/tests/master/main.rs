//! The master as its clients see it: objects, users, controllers, scheduler, storage, overload, and clients other than ours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod kube_rs;
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
mod master_pressure;
mod master_python;
mod master_scheduler;
mod master_schemathesis;
mod master_stock;
mod master_store;
mod master_tables;
mod master_to_nodes;
mod master_up;
mod spdy;
