//! Sandboxes.
