//! Machines with a kubelet become nodes: one join string or kubeconfig, one approval, and certificates that renew themselves.

mod across;
mod hosts;
mod machine;
mod overlap;
mod policies;
mod reached;
mod refused;
mod registered;
mod roots;
mod rotation;
mod stage;
mod stock;
mod trust;
mod waiting;
