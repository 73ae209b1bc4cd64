//! The pod network across machines: kubelets of one master, on two segments with a router between them.

mod asking;
mod cluster;
mod connections;
mod harm;
mod lone;
mod pairs;
mod places;
mod ranges;
mod slow;
