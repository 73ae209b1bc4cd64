//! The strategies of storage kinds.

pub(super) mod claim;
pub(super) mod class;
pub(super) mod csi;
pub(super) mod volume;

#[cfg(test)]
mod tests;
