//! The Kubernetes nouns Coracle speaks: decoding, defaults, validation.
