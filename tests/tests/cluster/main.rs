//! Nodes and their masters together: joining, pods of the API server, whole clusters and their faults, stock components,
//! upgrades.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster_bootstrap {
    //! Clusters whose masters are static pods: the first node starts its master, others join, and the cluster survives restarts.

    mod first;
    mod ha;
    mod stage;
}
mod cluster_faults {
    //! Faults of nodes and of their master, and the invariants after each: no pod is lost and none runs twice, no acknowledged write
    //! is lost, and the API shows the real state. The duration of each recovery is printed.
    //!
    //! A family of faults is applied, one after the other, to one test bed of three machines.

    mod cluster;
    mod kills;
    mod names;
    mod oracle;
    mod past;
    mod paths;
    mod power;
    mod writer;
}
mod cluster_pods;
#[cfg(target_arch = "x86_64")] // PyPI has the Helm program for no other processor.
mod helm;
mod hollow;
mod kubelet_joining {
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
}
mod kustomize;
mod master_joining {
    //! Tests of node joining with `openssl`, `kubectl` and a plain HTTP client.

    mod bootstrap;
    mod by_hand;
    mod complaints;
    mod flood;
    mod machine;
    mod modes;
    mod policies;
    mod rotation;
    mod stock;
}
mod pod_initializers;
mod stock_apiserver;
mod stock_client;
mod stock_components;
mod stock_kubelet;
mod stock_page;
mod upgrade;
