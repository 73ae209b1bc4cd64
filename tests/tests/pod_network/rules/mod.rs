//! What becomes of packets: ports of the host, masquerading, other firewalls, and rules that somebody else takes away.

mod firewalls;
mod host_ports;
mod outwards;
mod repair;
pub mod stage;
