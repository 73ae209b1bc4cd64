//! Flags of the stock kubelet (1.20 to 1.36) that this kubelet does not have, with the replacement for each.

use super::config;

/// Stock flags whose setting is a field of KubeletConfiguration.
const FIELDS: &[(&str, &str)] = &[
    ("anonymous-auth", "authentication.anonymous"),
    ("authentication-token-webhook", "authentication.webhook"),
    ("authentication-token-webhook-cache-ttl", "authentication.webhook"),
    ("authorization-mode", "authorization"),
    ("authorization-webhook-cache-authorized-ttl", "authorization"),
    ("authorization-webhook-cache-unauthorized-ttl", "authorization"),
    ("cgroup-driver", "cgroupDriver"),
    ("cgroup-root", "cgroupRoot"),
    ("cgroups-per-qos", "cgroupsPerQOS"),
    ("container-log-max-files", "containerLogMaxFiles"),
    ("container-log-max-size", "containerLogMaxSize"),
    ("contention-profiling", "enableContentionProfiling"),
    ("cpu-cfs-quota", "cpuCFSQuota"),
    ("cpu-cfs-quota-period", "cpuCFSQuotaPeriod"),
    ("cpu-manager-policy", "cpuManagerPolicy"),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions"),
    ("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod"),
    ("enable-controller-attach-detach", "enableControllerAttachDetach"),
    ("enable-debugging-handlers", "enableDebuggingHandlers"),
    ("enable-server", "enableServer"),
    ("enforce-node-allocatable", "enforceNodeAllocatable"),
    ("event-burst", "eventBurst"),
    ("event-qps", "eventRecordQPS"),
    ("experimental-kernel-memcg-notification", "kernelMemcgNotification"),
    ("experimental-logging-sanitization", "logging"),
    ("fail-swap-on", "failSwapOn"),
    ("feature-gates", "featureGates"),
    ("hairpin-mode", "hairpinMode"),
    ("image-gc-high-threshold", "imageGCHighThresholdPercent"),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent"),
    ("image-service-endpoint", "imageServiceEndpoint"),
    ("iptables-drop-bit", "iptablesDropBit"),
    ("iptables-masquerade-bit", "iptablesMasqueradeBit"),
    ("kernel-memcg-notification", "kernelMemcgNotification"),
    ("kube-api-burst", "kubeAPIBurst"),
    ("kube-api-content-type", "contentType"),
    ("kube-api-qps", "kubeAPIQPS"),
    ("kube-reserved", "kubeReserved"),
    ("kube-reserved-cgroup", "kubeReservedCgroup"),
    ("kubelet-cgroups", "kubeletCgroups"),
    ("local-storage-capacity-isolation", "localStorageCapacityIsolation"),
    ("log-flush-frequency", "logging"),
    ("log-json-info-buffer-size", "logging"),
    ("log-json-split-stream", "logging"),
    ("log-text-info-buffer-size", "logging"),
    ("log-text-split-stream", "logging"),
    ("make-iptables-util-chains", "makeIPTablesUtilChains"),
    ("max-open-files", "maxOpenFiles"),
    ("memory-manager-policy", "memoryManagerPolicy"),
    ("minimum-image-ttl-duration", "imageMinimumGCAge"),
    ("node-status-max-images", "nodeStatusMaxImages"),
    ("node-status-update-frequency", "nodeStatusUpdateFrequency"),
    ("oom-score-adj", "oomScoreAdj"),
    ("pod-max-pids", "podPidsLimit"),
    ("pods-per-core", "podsPerCore"),
    ("protect-kernel-defaults", "protectKernelDefaults"),
    ("provider-id", "providerID"),
    ("qos-reserved", "qosReserved"),
    ("read-only-port", "readOnlyPort"),
    ("register-node", "registerNode"),
    ("registry-burst", "registryBurst"),
    ("registry-qps", "registryPullQPS"),
    ("reserved-cpus", "reservedSystemCPUs"),
    ("reserved-memory", "reservedMemory"),
    ("rotate-certificates", "rotateCertificates"),
    ("rotate-server-certificates", "serverTLSBootstrap"),
    ("runonce", "runOnce"),
    ("runtime-request-timeout", "runtimeRequestTimeout"),
    ("seccomp-default", "seccompDefault"),
    ("serialize-image-pulls", "serializeImagePulls"),
    ("sync-frequency", "syncFrequency"),
    ("system-cgroups", "systemCgroups"),
    ("system-reserved", "systemReserved"),
    ("system-reserved-cgroup", "systemReservedCgroup"),
    ("tls-cipher-suites", "tlsCipherSuites"),
    ("tls-min-version", "tlsMinVersion"),
    ("topology-manager-policy", "topologyManagerPolicy"),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions"),
    ("topology-manager-scope", "topologyManagerScope"),
    ("vmodule", "logging"),
    ("volume-plugin-dir", "volumePluginDir"),
    ("volume-stats-agg-period", "volumeStatsAggPeriod"),
];

/// Stock flags that have another name here.
const FLAGS: &[(&str, &str)] = &[
    ("config-dir", "--config"),
    ("docker", "--docker-endpoint"),
    ("experimental-bootstrap-kubeconfig", "--bootstrap-kubeconfig"),
    ("logging-format", "--log-format"),
    ("network-plugin", "--pod-network"),
    ("pod-infra-container-image", "--sandbox-image"),
];

/// Stock flags without a counterpart, grouped by reason.
const WITHOUT: &[(&[&str], &str)] = &[
    (
        &[
            "add-dir-header",
            "alsologtostderr",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "stderrthreshold",
        ],
        "the log is written to standard error; --v and --log-format set its content and format",
    ),
    (
        &[
            "application-metrics-count-limit",
            "boot-id-file",
            "container-hints",
            "containerd",
            "containerd-namespace",
            "docker-env-metadata-whitelist",
            "docker-only",
            "docker-root",
            "docker-tls",
            "docker-tls-ca",
            "docker-tls-cert",
            "docker-tls-key",
            "enable-load-reader",
            "event-storage-age-limit",
            "event-storage-event-limit",
            "global-housekeeping-interval",
            "housekeeping-interval",
            "log-cadvisor-usage",
            "machine-id-file",
            "storage-driver-buffer-duration",
            "storage-driver-db",
            "storage-driver-host",
            "storage-driver-password",
            "storage-driver-secure",
            "storage-driver-table",
            "storage-driver-user",
        ],
        "this kubelet does not contain cAdvisor",
    ),
    (
        &[
            "container-runtime",
            "container-runtime-endpoint",
            "runtime-cgroups",
            "redirect-container-streaming",
            "image-pull-progress-deadline",
        ],
        "this kubelet runs containers through a Docker engine: use --docker-endpoint",
    ),
    (
        &["cni-bin-dir", "cni-cache-dir", "cni-conf-dir", "network-plugin-mtu", "non-masquerade-cidr"],
        "there are no CNI plugins: --pod-network native or docker gives pods their network",
    ),
    (
        &["cloud-config", "cloud-provider"],
        "there are no cloud providers in this kubelet: set addresses and labels with --node-ip and --node-labels",
    ),
    (
        &[
            "maximum-dead-containers",
            "maximum-dead-containers-per-container",
            "minimum-container-ttl-duration",
        ],
        "the kubelet keeps one exited container per container",
    ),
    (
        &["image-credential-provider-bin-dir", "image-credential-provider-config"],
        "registry credentials come from imagePullSecrets and from the configuration of docker",
    ),
    (
        &[
            "chaos-chance",
            "dynamic-config-dir",
            "exit-on-lock-contention",
            "experimental-allocatable-ignore-eviction",
            "experimental-check-node-capabilities-before-mount",
            "experimental-mounter-path",
            "keep-terminated-pod-volumes",
            "lock-file",
            "master-service-namespace",
            "really-crash-for-testing",
        ],
        "it has no effect in this kubelet",
    ),
    (
        &["register-schedulable"],
        "taint the node instead: --register-with-taints node.kubernetes.io/unschedulable=:NoSchedule",
    ),
    (&["seccomp-profile-root"], "profiles are in ROOT-DIR/seccomp"),
];

/// The replacement of a stock flag, or `None` for a flag that the stock kubelet does not have either.
pub fn instead(flag: &str) -> Option<String> {
    let name = flag.trim_start_matches('-').split('=').next()?;
    let find = |table: &[(&str, &'static str)]| {
        table.iter().find(|(stock, _)| *stock == name).map(|(_, instead)| *instead)
    };
    let instead = if let Some(field) = find(FIELDS) {
        let (top, _) = field.split_once('.').unwrap_or((field, ""));
        if config::is_supported(top) && top == field {
            format!("write `{field}` into the file of --config")
        } else {
            format!("remove it: `{field}` of KubeletConfiguration has no effect in this version")
        }
    } else if let Some(ours) = find(FLAGS) {
        format!("use {ours}")
    } else {
        let (_, why) = WITHOUT.iter().find(|(flags, _)| flags.contains(&name))?;
        format!("remove it: {why}")
    };
    Some(format!("only the stock kubelet has the flag --{name}; {instead}"))
}

#[cfg(test)]
mod tests {
    //! Tests that the tables are consistent with the flags and fields of this kubelet.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::args::Cli;

    fn all() -> Vec<&'static str> {
        let without = WITHOUT.iter().flat_map(|(flags, _)| flags.iter().copied());
        FIELDS.iter().chain(FLAGS).map(|(flag, _)| *flag).chain(without).collect()
    }

    #[test]
    fn stock_flags_are_listed_once_and_differ_from_own_flags() {
        let all = all();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), once.len());
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let ours: BTreeSet<&str> = run.get_arguments().filter_map(|argument| argument.get_long()).collect();
        assert_eq!(once.intersection(&ours).collect::<Vec<_>>(), [""; 0].iter().collect::<Vec<_>>());
        for (flag, replacement) in FLAGS {
            assert!(ours.contains(replacement.trim_start_matches("--")), "{flag}: {replacement}");
        }
        for (flag, field) in FIELDS {
            let top = field.split('.').next().unwrap();
            assert!(config::is_known(top), "{flag}: {field} is no field of KubeletConfiguration");
        }
    }

    #[test]
    fn stock_flag_error_names_the_replacement() {
        for (flag, expected) in [
            ("--pod-max-pids", "write `podPidsLimit` into the file of --config"),
            ("--cgroup-driver=systemd", "remove it: `cgroupDriver` of KubeletConfiguration has no effect"),
            ("--pod-infra-container-image", "use --sandbox-image"),
            ("--container-runtime-endpoint", "use --docker-endpoint"),
        ] {
            let advice = instead(flag).unwrap();
            assert!(advice.contains(expected) && advice.contains("stock kubelet"), "{advice}");
        }
        assert_eq!(instead("--prot"), None);
    }
}
