//! Bootstrap roles in `kube-system` and `kube-public`.

use super::{Binding, EVENTS, Line, READ, Role, named, on, role, to_accounts, to_users};

const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";
const READER: &str = "extension-apiserver-authentication-reader";
const SIGNER: &str = "system:controller:bootstrap-signer";
const CLEANER: &str = "system:controller:token-cleaner";
const PROVIDER: &str = "system:controller:cloud-provider";
const MANAGER_LOCK: &str = "system::leader-locking-kube-controller-manager";
const SCHEDULER_LOCK: &str = "system::leader-locking-kube-scheduler";

/// Rules for leader election, with Leases and with coordinated LeaseCandidates.
const LOCKING: &[Line] =
    &[on("create get list update watch", "coordination.k8s.io", "leasecandidates leases")];

/// Roles by namespace.
pub(super) const ROLES: &[(&str, Role)] = &[
    (SYSTEM, role(READER, &[named(READ, "core", "configmaps", "extension-apiserver-authentication")])),
    (SYSTEM, role(SIGNER, &[on(READ, "core", "secrets")])),
    (SYSTEM, role(CLEANER, &[on("delete get list watch", "core", "secrets"), EVENTS])),
    (SYSTEM, role(PROVIDER, &[on("create get list watch", "core", "configmaps")])),
    (SYSTEM, role(MANAGER_LOCK, LOCKING)),
    (SYSTEM, role(SCHEDULER_LOCK, LOCKING)),
    (
        PUBLIC,
        role(
            SIGNER,
            &[on(READ, "core", "configmaps"), named("update", "core", "configmaps", "cluster-info"), EVENTS],
        ),
    ),
];

/// Bindings by namespace and name.
pub(super) const BINDINGS: &[(&str, &str, Binding)] = &[
    (
        SYSTEM,
        "system::extension-apiserver-authentication-reader",
        to_users(READER, "system:kube-controller-manager system:kube-scheduler"),
    ),
    (SYSTEM, SIGNER, to_accounts(SIGNER, "bootstrap-signer")),
    (SYSTEM, CLEANER, to_accounts(CLEANER, "token-cleaner")),
    (SYSTEM, PROVIDER, to_accounts(PROVIDER, "cloud-provider")),
    (
        SYSTEM,
        MANAGER_LOCK,
        Binding {
            accounts: "kube-controller-manager leader-election-controller",
            ..to_users(MANAGER_LOCK, "system:kube-controller-manager")
        },
    ),
    (
        SYSTEM,
        SCHEDULER_LOCK,
        Binding { accounts: "kube-scheduler", ..to_users(SCHEDULER_LOCK, "system:kube-scheduler") },
    ),
    (PUBLIC, SIGNER, to_accounts(SIGNER, "bootstrap-signer")),
];
