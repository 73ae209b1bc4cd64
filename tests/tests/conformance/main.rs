//! Our own tests of the requirements in the Kubernetes conformance suite; `docs/conformance.md` maps its lines to these tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod accounts;
mod cluster;
mod definitions;
mod discovering;
mod garbage;
mod kubectl;
mod lifecycle;
mod lifecycle_kinds;
mod lists;
mod namespaces;
mod node;
mod objects;
mod page;
mod pod_beginnings;
mod pod_changes;
mod pod_commands;
mod pod_debugging;
mod pod_environment;
mod pod_evictions;
mod pod_probes;
mod pod_rights;
mod pod_scheduling;
mod pod_servers;
mod pod_updates;
mod pod_volumes;
mod policies;
mod quotas;
mod service_names;
mod service_traffic;
mod services;
mod volume_claims;
mod watching;
mod workload_autoscaling;
mod workload_daemonsets;
mod workload_jobs;
mod workload_plans;
mod workload_statefulsets;
mod workloads;
