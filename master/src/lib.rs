//! The control plane.
