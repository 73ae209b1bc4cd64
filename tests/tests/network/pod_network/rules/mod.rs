//! Packet rules: host ports, masquerading, coexistence with firewalls, and repair of deleted rules.

mod firewalls;
mod host_ports;
mod outwards;
mod repair;
pub mod stage;
