//! A pod's volumes on the host: made before its containers, refreshed while it runs, taken down after.
