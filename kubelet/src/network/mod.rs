//! The network of the pods that the kubelet makes itself.

pub mod nft;
