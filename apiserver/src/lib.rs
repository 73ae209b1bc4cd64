//! The Kubernetes API server as a library: resources, storage, watch cache, authentication, authorization and
//! admission.
//!
//! [`Api`] looks up the [`resource::Resource`] row of a request and answers reads from the
//! [`watch_cache::WatchCache`]. Writes go through [`registry::Registry`] into a durable [`storage::Store`].
//! [`serve()`] serves any router on any listener. Endpoints that are not resources are ordinary routes in
//! front of [`Api::router`].
#![deny(missing_docs)]

pub mod activity;
pub mod admission;
mod api;
pub mod auth;
pub mod catalog;
mod compress;
mod compute_pool;
pub mod container;
pub mod crd;
pub mod discovery;
mod drain_body;
pub mod exposition;
pub mod flowcontrol;
pub mod guarded_body;
pub mod identity;
pub mod kinds;
pub mod list;
mod list_body;
pub mod metrics_api;
pub mod object;
pub mod openapi;
pub mod registry;
pub mod represent;
pub mod request;
pub mod resource;
pub mod selector;
mod serve;
pub mod shares;
pub mod spdy;
pub mod status;
pub mod storage;
pub mod tasks;
pub mod tls;
pub mod ui;
pub mod version;
pub mod watch;
pub mod watch_cache;
pub mod websocket;
pub mod write;

pub use api::Api;
pub use catalog::Catalog;
pub use guarded_body::GuardedBody;
pub use identity::Identity;
pub use resource::Resource;
pub use serve::serve;
pub use status::Status;
pub use version::{VERSION, Version};
