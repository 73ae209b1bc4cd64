//! The Kubernetes API as a library: resources over a store, with watch.
