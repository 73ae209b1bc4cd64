//! Code that the controllers of workloads share: pods as replicas, adoption, expectations, and names.

pub mod claim;
pub mod expectations;
pub mod names;
pub mod replica;
pub mod requests;
#[cfg(test)]
mod tests;
