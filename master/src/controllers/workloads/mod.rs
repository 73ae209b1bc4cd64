//! Code that the controllers of workloads share: pods as replicas, adoption, expectations, revisions, and names.

pub mod claim;
pub mod expectations;
pub mod history;
pub mod names;
pub mod own_writes;
pub mod replica;
pub mod requests;
pub mod revisions;
#[cfg(test)]
mod tests;
