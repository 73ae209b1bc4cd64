//! Code that the controllers of workloads share: pods and their writes, adoption, expectations,
//! revisions, and names.

pub mod claim;
pub mod expectations;
pub mod history;
pub mod names;
pub mod own_writes;
pub mod owners;
pub mod pod_control;
pub mod pod_writes;
pub mod replica;
pub mod requests;
pub mod revisions;
#[cfg(test)]
mod tests;
