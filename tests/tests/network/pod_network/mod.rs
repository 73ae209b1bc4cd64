//! The kubelet's native pod network: with real nodes, and its packet rules in network namespaces of the tests.

mod across;
mod addresses;
mod faults;
mod machine;
mod moves;
mod rules;
mod spoofing;
