//! A pod with NET_RAW can send only from its own hardware and IP addresses, and cannot pose as a router or as another neighbour.

mod cases;
mod frames;
mod kubelet;
mod rules;
mod wire;
