//! Volumes, the claims on them, and what makes and attaches them.

pub(super) mod attachment;
pub(super) mod claim;
pub(super) mod class;
pub(super) mod csi;
pub(super) mod volume;

#[cfg(test)]
mod tests;
