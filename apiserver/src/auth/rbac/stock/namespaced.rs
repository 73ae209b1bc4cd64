//! Roles in `kube-system` and `kube-public`.

use super::{Binding, EVENTS, READ, Role, named, on, role, to_accounts, to_users};

const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";
const READER: &str = "extension-apiserver-authentication-reader";
const SIGNER: &str = "system:controller:bootstrap-signer";
const CLEANER: &str = "system:controller:token-cleaner";
const MANAGER_LOCK: &str = "system::leader-locking-kube-controller-manager";
const SCHEDULER_LOCK: &str = "system::leader-locking-kube-scheduler";

/// Each with its namespace.
pub(super) const ROLES: &[(&str, Role)] = &[
    (SYSTEM, role(READER, &[named(READ, "core", "configmaps", "extension-apiserver-authentication")])),
    (SYSTEM, role(SIGNER, &[on(READ, "core", "secrets")])),
    (SYSTEM, role(CLEANER, &[on("delete get list watch", "core", "secrets"), EVENTS])),
    (
        SYSTEM,
        role(
            MANAGER_LOCK,
            &[
                on("watch", "core", "configmaps"),
                named("get update", "core", "configmaps", "kube-controller-manager"),
            ],
        ),
    ),
    (
        SYSTEM,
        role(
            SCHEDULER_LOCK,
            &[on("watch", "core", "configmaps"), named("get update", "core", "configmaps", "kube-scheduler")],
        ),
    ),
    (
        PUBLIC,
        role(
            SIGNER,
            &[on(READ, "core", "configmaps"), named("update", "core", "configmaps", "cluster-info"), EVENTS],
        ),
    ),
];

/// Each with its namespace and its name.
pub(super) const BINDINGS: &[(&str, &str, Binding)] = &[
    (
        SYSTEM,
        "system::extension-apiserver-authentication-reader",
        to_users(READER, "system:kube-controller-manager system:kube-scheduler"),
    ),
    (SYSTEM, SIGNER, to_accounts(SIGNER, "bootstrap-signer")),
    (SYSTEM, CLEANER, to_accounts(CLEANER, "token-cleaner")),
    (
        SYSTEM,
        MANAGER_LOCK,
        Binding {
            accounts: "kube-controller-manager",
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
