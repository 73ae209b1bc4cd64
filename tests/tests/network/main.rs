//! The pod network of one node and of several, and the simulated machines on which the tests of networks run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod ingress;
mod pod_network {
    //! The kubelet's native pod network: with real nodes, and its packet rules in network namespaces of the tests.

    mod across {
        //! Pods of several nodes: two on one segment, a third behind a router.

        mod claims;
        mod faults;
        mod ranges;
        mod stage;
        mod ways;
    }
    mod addresses;
    mod faults;
    mod machine;
    mod moves;
    pub mod rules {
        //! Packet rules: host ports, masquerading, coexistence with firewalls, and repair of deleted rules.

        mod firewalls;
        mod host_ports;
        mod outwards;
        mod repair;
        pub mod stage;
    }
    mod spoofing {
        //! A pod with NET_RAW can send only from its own hardware and IP addresses, and cannot pose as a router or as another neighbour.

        mod cases;
        mod frames;
        mod kubelet;
        mod rules;
        mod wire;
    }
}
mod pod_network_nodes {
    //! The pod network across machines: kubelets of one master, on two segments with a router between them.

    pub mod asking;
    pub mod cluster;
    mod connections;
    mod harm;
    mod lone;
    mod pairs;
    mod places;
    mod ranges;
    mod slow;
}
mod policies {
    //! NetworkPolicies: their packet rules between network namespaces, and with real nodes of one master.

    mod cluster;
    mod rules;
}
mod services {
    //! The service proxy: its packet rules between network namespaces, and with real nodes of one master.

    mod cluster;
    mod firewalls;
    mod removed;
    pub mod rules;
}
