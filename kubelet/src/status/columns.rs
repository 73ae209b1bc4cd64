//! How this node's objects look in a table: as in any cluster.

pub use api::table::{CONFIG_MAPS, EVENTS, NAME_AND_AGE, NODES, PODS, SECRETS};
