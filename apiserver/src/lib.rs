//! The Kubernetes API as a library: resources over a store, with watch.
//!
//! A request is read once into a `request`, finds its [`resource::Resource`] row, and is answered from the
//! [`store::Memory`] by [`Api`]; [`serve()`] puts any router on any listener. What is not a resource (subresources,
//! classic endpoints) is an ordinary route in front of [`Api::router`]. What must outlive the process goes into a
//! [`storage::Store`].

pub mod activity;
pub mod admission;
mod api;
pub mod auth;
pub mod bounds;
pub mod catalog;
mod compress;
pub mod container;
pub mod crd;
pub mod discovery;
mod held;
pub mod identity;
pub mod kinds;
pub mod list;
pub mod openapi;
pub mod registry;
pub mod request;
pub mod resource;
pub mod selector;
mod serve;
pub mod shares;
pub mod spdy;
pub mod status;
pub mod storage;
pub mod store;
pub mod table;
pub mod tls;
mod unread;
pub mod watch;
pub mod write;

pub use api::{Api, Version};
pub use catalog::Catalog;
pub use held::Held;
pub use identity::Identity;
pub use resource::Resource;
pub use serve::serve;
pub use status::Status;
