//! Reads the KubeletConfiguration file of `--config`: each field is applied, reported as ignored, or reported as a mistake.

use std::path::PathBuf;
use std::time::Duration;

use command::InvalidValue;
use serde_json::{Map, Value};

use super::Draft;
use super::values;
use crate::options::{Taint, Texts};

/// What was found in the file.
#[derive(Debug, Default)]
pub struct Found {
    /// Mistakes, one line each.
    pub mistakes: Vec<String>,
    /// Stock fields that this version ignores.
    pub ignored: Vec<String>,
}

/// Applies one field to the draft.
type Setter = fn(&Value, &mut Draft) -> Result<(), InvalidValue>;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";
/// The field of which only `x509` is applied.
const AUTHENTICATION: &str = "authentication";
const X509: &str = "x509";

const SUPPORTED: &[(&str, Setter)] = &[
    ("staticPodPath", |v, d| {
        set(&mut d.options.pod_manifest_path, text(v).map(|t| filled(t).map(PathBuf::from)))
    }),
    ("staticPodURL", |v, d| {
        let url = text(v)?;
        set(&mut d.options.manifest_url, filled(url).map(|url| values::url(&url)).transpose())
    }),
    ("staticPodURLHeader", |v, d| set(&mut d.options.manifest_url_headers, headers(v))),
    ("fileCheckFrequency", |v, d| {
        set(&mut d.options.file_check_frequency, parsed(v, values::positive_duration))
    }),
    ("httpCheckFrequency", |v, d| {
        set(&mut d.options.http_check_frequency, parsed(v, values::positive_duration))
    }),
    ("address", |v, d| set(&mut d.address, parsed(v, values::ip))),
    ("port", |v, d| set(&mut d.port, number(v, 1, i64::from(u16::MAX)))),
    ("enableServer", |v, d| {
        if !boolean(v)? {
            d.port = 0;
        }
        Ok(())
    }),
    ("tlsCertFile", |v, d| set(&mut d.tls_cert_file, text(v).map(|t| filled(t).map(PathBuf::from)))),
    ("tlsPrivateKeyFile", |v, d| {
        set(&mut d.tls_private_key_file, text(v).map(|t| filled(t).map(PathBuf::from)))
    }),
    (AUTHENTICATION, |v, d| match v.pointer("/x509/clientCAFile") {
        None | Some(Value::Null) => Ok(()),
        Some(file) => set(&mut d.options.client_ca_file, text(file).map(|t| filled(t).map(PathBuf::from))),
    }),
    ("streamingConnectionIdleTimeout", |v, d| {
        set(&mut d.options.streaming_idle, parsed(v, values::positive_duration))
    }),
    ("healthzBindAddress", |v, d| set(&mut d.healthz_address, parsed(v, values::ip))),
    ("healthzPort", |v, d| set(&mut d.healthz_port, number(v, 0, i64::from(u16::MAX)))),
    ("ingress", |v, d| set(&mut d.ingress, boolean(v))),
    ("ingressAddress", |v, d| set(&mut d.ingress_address, parsed(v, values::ip))),
    ("ingressHTTPPort", |v, d| set(&mut d.ingress_http_port, number(v, 0, i64::from(u16::MAX)))),
    ("ingressHTTPSPort", |v, d| set(&mut d.ingress_https_port, number(v, 0, i64::from(u16::MAX)))),
    ("maxPods", |v, d| set(&mut d.options.max_pods, number(v, 0, i64::from(i32::MAX)))),
    ("podCIDR", |v, d| set(&mut d.options.pod_cidrs, parsed(v, values::ranges))),
    ("serviceProxy", |v, d| set(&mut d.options.service_proxy, parsed(v, values::service_proxy).map(Some))),
    ("serviceClusterIPRange", |v, d| set(&mut d.options.service_ranges, parsed(v, values::service_ranges))),
    ("clusterDNS", |v, d| set(&mut d.options.cluster_dns, list(v, |v| parsed(v, values::ip)))),
    ("resolvConf", |v, d| set(&mut d.options.resolv_conf, text(v).map(PathBuf::from))),
    ("clusterDomain", |v, d| set(&mut d.options.cluster_domain, text(v))),
    ("serializeImagePulls", |v, d| {
        if boolean(v)? {
            d.options.max_parallel_image_pulls = 1;
        }
        Ok(())
    }),
    ("maxParallelImagePulls", |v, d| {
        set(&mut d.options.max_parallel_image_pulls, number(v, 1, i64::from(i32::MAX)))
    }),
    ("rotateCertificates", |v, _| {
        let always = "cannot be disabled: the kubelet always renews its certificates".to_owned();
        if boolean(v)? { Ok(()) } else { Err(always) }
    }),
    ("serverTLSBootstrap", |v, d| set(&mut d.serving, boolean(v).map(Some))),
    ("registerWithTaints", |v, d| set(&mut d.options.register_with_taints, list(v, taint))),
    ("allowedUnsafeSysctls", |v, d| set(&mut d.options.allowed_unsafe_sysctls, list(v, text))),
    ("podPidsLimit", |v, d| {
        let limit: i64 = number(v, -1, i64::MAX)?;
        d.options.pod_pids_limit = (limit > 0).then_some(limit);
        Ok(())
    }),
    ("containerLogMaxSize", |v, d| set(&mut d.options.container_log_max_bytes, quantity(v))),
    ("containerLogMaxFiles", |v, d| {
        set(&mut d.options.container_log_max_files, number(v, 2, i64::from(i32::MAX)))
    }),
    ("imageGCHighThresholdPercent", |v, d| set(&mut d.options.image_gc.high_percent, number(v, 0, 100))),
    ("imageGCLowThresholdPercent", |v, d| set(&mut d.options.image_gc.low_percent, number(v, 0, 100))),
    ("imageMinimumGCAge", |v, d| set(&mut d.options.image_gc.min_age, parsed(v, values::duration))),
    ("imageMaximumGCAge", |v, d| set(&mut d.options.image_gc.max_age, parsed(v, values::duration))),
    ("evictionHard", |v, d| set(&mut d.eviction.hard, texts(v).map(Some))),
    ("evictionSoft", |v, d| set(&mut d.eviction.soft, texts(v).map(Some))),
    ("evictionSoftGracePeriod", |v, d| set(&mut d.eviction.soft_grace, texts(v).map(Some))),
    ("evictionMinimumReclaim", |v, d| set(&mut d.eviction.minimum_reclaim, texts(v).map(Some))),
    ("mergeDefaultEvictionSettings", |v, d| set(&mut d.eviction.merge_defaults, boolean(v))),
    ("evictionMaxPodGracePeriod", |v, d| {
        let seconds = number(v, 0, i64::from(i32::MAX));
        set(&mut d.options.eviction.max_pod_grace, seconds.map(Duration::from_secs))
    }),
    ("evictionPressureTransitionPeriod", |v, d| {
        set(&mut d.options.eviction.transition_period, parsed(v, values::duration))
    }),
];

/// Stock fields that this version ignores.
const IGNORED: &[&str] = &[
    "authorization",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "contentType",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "cpuManagerReconcilePeriod",
    "crashLoopBackOff",
    "enableContentionProfiling",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "failCgroupV1",
    "failSwapOn",
    "featureGates",
    "hairpinMode",
    "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kernelMemcgNotification",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "kubeReservedCgroup",
    "kubeletCgroups",
    "localStorageCapacityIsolation",
    "logging",
    "makeIPTablesUtilChains",
    "maxOpenFiles",
    "memoryManagerPolicy",
    "memoryReservationPolicy",
    "memorySwap",
    "memoryThrottlingFactor",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podLogsDir",
    "podsPerCore",
    "preloadedImagesVerificationAllowlist",
    "protectKernelDefaults",
    "providerID",
    "qosReserved",
    "readOnlyPort",
    "registerNode",
    "registryBurst",
    "registryPullQPS",
    "reservedMemory",
    "reservedSystemCPUs",
    "runOnce",
    "runtimeRequestTimeout",
    "seccompDefault",
    "showHiddenMetricsForVersion",
    "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriodCriticalPods",
    "singleProcessOOMKill",
    "syncFrequency",
    "systemCgroups",
    "systemReserved",
    "systemReservedCgroup",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "topologyManagerPolicy",
    "topologyManagerPolicyOptions",
    "topologyManagerScope",
    "tracing",
    "userNamespaces",
    "volumePluginDir",
    "volumeStatsAggPeriod",
];

/// Whether this version applies a field of KubeletConfiguration.
pub(super) fn is_supported(field: &str) -> bool {
    SUPPORTED.iter().any(|(honoured, _)| *honoured == field)
}

/// The fields that this version applies.
#[cfg(test)]
pub(super) fn supported() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().map(|(field, _)| *field)
}

/// Whether KubeletConfiguration has the field.
#[cfg(test)]
pub(super) fn is_known(field: &str) -> bool {
    is_supported(field) || IGNORED.contains(&field)
}

/// Applies the content of a file to the draft.
pub(super) fn apply(file: &[u8], draft: &mut Draft) -> Found {
    let mut found = Found::default();
    let object = match api::decode::value(file) {
        Ok(Some(Value::Object(object))) => object,
        Ok(None) => Map::new(),
        Ok(Some(_)) => {
            found.mistakes.push(format!(
                "is not an object; write `apiVersion: {API_VERSION}`, `kind: {KIND}` and fields"
            ));
            return found;
        }
        Err(problem) => {
            found.mistakes.push(problem.to_string());
            return found;
        }
    };
    for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match object.get(name).and_then(Value::as_str) {
            Some(text) if text == wanted => {}
            Some(text) => found.mistakes.push(format!("{name}: \"{text}\" is not {wanted}")),
            None => found.mistakes.push(format!("{name} is missing, write `{name}: {wanted}`")),
        }
    }
    for (name, value) in object.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")) {
        if let Some((_, setter)) = SUPPORTED.iter().find(|(field, _)| field == name) {
            if value.is_null() {
                continue;
            }
            if let Err(wanted) = setter(value, draft) {
                found.mistakes.push(format!("{name}: {value} {wanted}"));
            }
            if let (AUTHENTICATION, Some(parts)) = (name.as_str(), value.as_object()) {
                let others = parts.keys().filter(|part| *part != X509);
                found.ignored.extend(others.map(|part| format!("{AUTHENTICATION}.{part}")));
            }
        } else if IGNORED.contains(&name.as_str()) {
            found.ignored.push(name.clone());
        } else {
            found.mistakes.push(format!("{name} is not a field of {KIND}{}", nearest(name)));
        }
    }
    found
}

/// Returns a hint with the most similar field name. The comparison ignores case, and up to three typing errors.
fn nearest(name: &str) -> String {
    let all = SUPPORTED.iter().map(|(field, _)| *field).chain(IGNORED.iter().copied());
    all.map(|field| (strsim::damerau_levenshtein(&field.to_lowercase(), &name.to_lowercase()), field))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, field)| format!("; did you mean {field}?"))
        .unwrap_or_default()
}

fn set<T>(into: &mut T, value: Result<T, InvalidValue>) -> Result<(), InvalidValue> {
    *into = value?;
    Ok(())
}

fn text(value: &Value) -> Result<String, InvalidValue> {
    value.as_str().map(str::to_owned).ok_or_else(|| "is not a string".to_owned())
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn parsed<T>(value: &Value, read: impl Fn(&str) -> Result<T, InvalidValue>) -> Result<T, InvalidValue> {
    read(&text(value)?)
}

fn boolean(value: &Value) -> Result<bool, InvalidValue> {
    value.as_bool().ok_or_else(|| "is neither true nor false".to_owned())
}

fn number<N: TryFrom<i64>>(value: &Value, least: i64, most: i64) -> Result<N, InvalidValue> {
    let wanted = || match most {
        i64::MAX => format!("is not a whole number of at least {least}"),
        _ => format!("is not a whole number from {least} to {most}"),
    };
    let number = value.as_i64().filter(|number| (least..=most).contains(number)).ok_or_else(wanted)?;
    N::try_from(number).map_err(|_| wanted())
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Result<T, InvalidValue>) -> Result<Vec<T>, InvalidValue> {
    value.as_array().ok_or_else(|| "is not a list".to_owned())?.iter().map(read).collect()
}

/// A map of strings.
fn texts(value: &Value) -> Result<Texts, InvalidValue> {
    let wanted = || "is not a map of strings".to_owned();
    let entries = value.as_object().ok_or_else(wanted)?.iter();
    entries.map(|(name, text)| Ok((name.clone(), text.as_str().ok_or_else(wanted)?.to_owned()))).collect()
}

fn headers(value: &Value) -> Result<Vec<(String, String)>, InvalidValue> {
    let wanted = || "is not a map from header names to lists of values".to_owned();
    let mut headers = Vec::new();
    for (name, texts) in value.as_object().ok_or_else(wanted)? {
        for text in texts.as_array().ok_or_else(wanted)? {
            headers.push(values::header(&format!("{name}:{}", text.as_str().ok_or_else(wanted)?))?);
        }
    }
    Ok(headers)
}

fn taint(value: &Value) -> Result<Taint, InvalidValue> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    values::taint(&format!("{}={}:{}", text("key"), text("value"), text("effect")))
}

fn quantity(value: &Value) -> Result<u64, InvalidValue> {
    let wanted = || "is not a size; write for example 10Mi".to_owned();
    let quantity: api::quantity::Quantity = text(value)?.parse().map_err(|_| wanted())?;
    u64::try_from(quantity.units()).ok().filter(|bytes| *bytes > 0).ok_or_else(wanted)
}
