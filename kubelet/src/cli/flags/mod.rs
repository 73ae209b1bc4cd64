//! Converts the flags and the configuration file of `kubelet run` to [`Options`]. It reports all mistakes, not only
//! the first.

mod config;
mod join;
pub mod stock;
#[cfg(test)]
mod tests;
mod values;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use command::{InvalidValue, Logging, Values, commas};

use super::args::RunFlags;
use crate::options::{Eviction, EvictionTexts, IngressAddresses, Options, PodNetwork};
pub use values::duration;

/// Options and warnings from the command line and the file.
#[derive(Debug)]
pub struct Read {
    pub options: Options,
    /// Warnings, one line each.
    pub warnings: Vec<String>,
}

/// The options while they are read. The file is applied first, and flags override it.
struct Draft {
    options: Options,
    address: IpAddr,
    port: u16,
    healthz_address: IpAddr,
    healthz_port: u16,
    ingress: bool,
    ingress_address: IpAddr,
    ingress_http_port: u16,
    ingress_https_port: u16,
    tls_cert_file: Option<PathBuf>,
    tls_private_key_file: Option<PathBuf>,
    /// `serverTLSBootstrap` of the file: whether the node requests a serving certificate.
    serving: Option<bool>,
    /// Thresholds as flags and file write them.
    eviction: EvictionTexts,
}

/// Reads flags and file. `host_name` is the host's name, `file` the content of `--config`.
///
/// # Errors
/// If flags are invalid. The error lists all mistakes, one per line.
pub fn read(
    flags: &RunFlags,
    root_dir: Option<PathBuf>,
    host_name: &str,
    file: Option<&[u8]>,
) -> Result<Read, Vec<String>> {
    let mut mistakes = Vec::new();
    let name = flags.hostname_override.as_deref().unwrap_or(host_name);
    let node_name = values::node_name(name).unwrap_or_else(|wanted| {
        mistakes.push(format!("--hostname-override: \"{name}\" {wanted}"));
        String::new()
    });
    let options = Options::new(&node_name);
    let mut draft = Draft {
        address: IpAddr::from([0, 0, 0, 0]),
        port: 10250,
        healthz_address: IpAddr::from([127, 0, 0, 1]),
        healthz_port: 10248,
        ingress: false,
        ingress_address: IpAddr::from(Ipv6Addr::UNSPECIFIED),
        ingress_http_port: 80,
        ingress_https_port: 443,
        tls_cert_file: None,
        tls_private_key_file: None,
        serving: None,
        eviction: EvictionTexts::default(),
        options,
    };
    if let Some(root_dir) = root_dir {
        // The engine mounts files below it into containers and accepts only absolute paths.
        draft.options.root_dir = std::path::absolute(&root_dir).unwrap_or(root_dir);
    }
    let mut warnings = Vec::new();
    if let (Some(path), Some(text)) = (&flags.config, file) {
        let path = path.display().to_string();
        let found = config::apply(text, &mut draft);
        mistakes.extend(found.mistakes.into_iter().map(|mistake| format!("{path}: {mistake}")));
        if !found.ignored.is_empty() {
            let fields = found.ignored.join(", ");
            warnings.push(format!("{path}: these fields are not supported and have no effect: {fields}"));
        }
    }
    let mut flags_over = Flags { mistakes: &mut mistakes };
    flags_over.apply(flags, &mut draft);
    let is_serving_set = draft.serving;
    flags_over.join(flags, is_serving_set, &mut draft.options);
    if draft.tls_cert_file.is_some() != draft.tls_private_key_file.is_some() {
        mistakes.push("--tls-cert-file, --tls-private-key-file: give both or none".to_owned());
    }
    match draft.eviction.thresholds() {
        Ok(thresholds) => draft.options.eviction.thresholds = thresholds,
        Err(wrong) => mistakes.extend(wrong),
    }
    mistakes.extend(draft.options.image_gc.mistakes());
    if draft.options.pod_network == Some(PodNetwork::Docker) && !draft.options.pod_cidrs.is_empty() {
        mistakes.push(
            "--pod-cidr, --pod-network docker: the engine gives pods addresses of its own network; leave --pod-cidr (podCIDR in \
             the file) out, or give --pod-network native"
                .to_owned(),
        );
    }
    if mistakes.is_empty() { Ok(Read { options: draft.finish(), warnings }) } else { Err(mistakes) }
}

impl Draft {
    fn finish(self) -> Options {
        let server = |address, port| (port != 0).then(|| SocketAddr::new(address, port));
        Options {
            api_address: server(self.address, self.port),
            healthz_address: server(self.healthz_address, self.healthz_port),
            ingress: self.ingress.then(|| IngressAddresses {
                http: server(self.ingress_address, self.ingress_http_port),
                https: server(self.ingress_address, self.ingress_https_port),
            }),
            tls_files: self.tls_cert_file.zip(self.tls_private_key_file),
            ..self.options
        }
    }
}

struct Flags<'a> {
    mistakes: &'a mut Vec<String>,
}

impl Flags<'_> {
    fn apply(&mut self, flags: &RunFlags, draft: &mut Draft) {
        let options = &mut draft.options;
        self.set("--docker-endpoint", &flags.docker_endpoint, values::endpoint, &mut options.docker_endpoint);
        self.set("--pod-manifest-path", &flags.pod_manifest_path, some(path), &mut options.pod_manifest_path);
        self.set("--manifest-url", &flags.manifest_url, some(values::url), &mut options.manifest_url);
        self.extend(
            "--manifest-url-header",
            &flags.manifest_url_header,
            values::header,
            &mut options.manifest_url_headers,
        );
        self.set(
            "--file-check-frequency",
            &flags.file_check_frequency,
            values::positive_duration,
            &mut options.file_check_frequency,
        );
        self.set(
            "--http-check-frequency",
            &flags.http_check_frequency,
            values::positive_duration,
            &mut options.http_check_frequency,
        );
        self.set("--node-ip", &flags.node_ip, some(values::ip), &mut options.node_ip);
        self.extend("--node-labels", &commas(&flags.node_labels), values::label, &mut options.node_labels);
        self.extend(
            "--register-with-taints",
            &commas(&flags.register_with_taints),
            values::taint,
            &mut options.register_with_taints,
        );
        self.set("--max-pods", &flags.max_pods, |text| values::at_least(text, 1), &mut options.max_pods);
        self.set("--pod-network", &flags.pod_network, some(values::pod_network), &mut options.pod_network);
        self.set(
            "--service-proxy",
            &flags.service_proxy,
            some(values::service_proxy),
            &mut options.service_proxy,
        );
        self.set(
            "--service-cluster-ip-range",
            &flags.service_cluster_ip_range,
            values::service_ranges,
            &mut options.service_ranges,
        );
        self.set("--pod-cidr", &flags.pod_cidr, values::ranges, &mut options.pod_cidrs);
        self.set("--sandbox-image", &flags.sandbox_image, some(text), &mut options.sandbox_image);
        self.extend("--cluster-dns", &commas(&flags.cluster_dns), values::ip, &mut options.cluster_dns);
        self.set("--resolv-conf", &flags.resolv_conf, path, &mut options.resolv_conf);
        self.set("--cluster-domain", &flags.cluster_domain, text, &mut options.cluster_domain);
        self.extend(
            "--allowed-unsafe-sysctls",
            &commas(&flags.allowed_unsafe_sysctls),
            text,
            &mut options.allowed_unsafe_sysctls,
        );
        self.set("--client-ca-file", &flags.client_ca_file, some(path), &mut options.client_ca_file);
        self.set(
            "--streaming-connection-idle-timeout",
            &flags.streaming_connection_idle_timeout,
            values::positive_duration,
            &mut options.streaming_idle,
        );
        self.eviction(flags, &mut draft.eviction, &mut options.eviction);
        self.set("--tls-cert-file", &flags.tls_cert_file, some(path), &mut draft.tls_cert_file);
        self.set(
            "--tls-private-key-file",
            &flags.tls_private_key_file,
            some(path),
            &mut draft.tls_private_key_file,
        );
        self.set("--address", &flags.address, values::ip, &mut draft.address);
        self.set("--port", &flags.port, values::port, &mut draft.port);
        self.set(
            "--healthz-bind-address",
            &flags.healthz_bind_address,
            values::ip,
            &mut draft.healthz_address,
        );
        draft.ingress |= flags.ingress;
        self.set("--ingress-address", &flags.ingress_address, values::ip, &mut draft.ingress_address);
        self.set("--ingress-http-port", &flags.ingress_http_port, values::port, &mut draft.ingress_http_port);
        self.set(
            "--ingress-https-port",
            &flags.ingress_https_port,
            values::port,
            &mut draft.ingress_https_port,
        );
        self.set("--healthz-port", &flags.healthz_port, values::port, &mut draft.healthz_port);
    }

    fn eviction(&mut self, flags: &RunFlags, texts: &mut EvictionTexts, settings: &mut Eviction) {
        self.set("--eviction-hard", &flags.eviction_hard, some(values::thresholds), &mut texts.hard);
        self.set("--eviction-soft", &flags.eviction_soft, some(values::thresholds), &mut texts.soft);
        self.set(
            "--eviction-soft-grace-period",
            &flags.eviction_soft_grace_period,
            some(values::by_signal),
            &mut texts.soft_grace,
        );
        self.set(
            "--eviction-minimum-reclaim",
            &flags.eviction_minimum_reclaim,
            some(values::by_signal),
            &mut texts.minimum_reclaim,
        );
        let seconds = |text: &str| values::at_least(text, 0).map(Duration::from_secs);
        self.set(
            "--eviction-max-pod-grace-period",
            &flags.eviction_max_pod_grace_period,
            seconds,
            &mut settings.max_pod_grace,
        );
        self.set(
            "--eviction-pressure-transition-period",
            &flags.eviction_pressure_transition_period,
            values::duration,
            &mut settings.transition_period,
        );
    }
}

impl Values for Flags<'_> {
    fn refuse(&mut self, name: &str, text: &str, wanted: &str) {
        self.mistakes.push(format!("{name}: \"{text}\" {wanted}"));
    }
}

fn some<T>(
    read: impl Fn(&str) -> Result<T, InvalidValue>,
) -> impl Fn(&str) -> Result<Option<T>, InvalidValue> {
    move |text| read(text).map(Some)
}

fn text(text: &str) -> Result<String, InvalidValue> {
    Ok(text.to_owned())
}

fn path(text: &str) -> Result<PathBuf, InvalidValue> {
    // An absolute path stays valid if the process changes its working directory.
    std::path::absolute(text).map_err(|error| format!("is not a path: {error}"))
}

/// Reads the log flags.
///
/// # Errors
/// If flags are invalid. The error lists all mistakes, one per line.
pub fn logging(flags: &RunFlags) -> Result<Logging, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut logging = Logging::default();
    let mut flags_over = Flags { mistakes: &mut mistakes };
    flags_over.set("--v", &flags.v, |text| values::at_least(text, 0), &mut logging.verbosity);
    flags_over.set("--log-format", &flags.log_format, Logging::format, &mut logging.json);
    if mistakes.is_empty() { Ok(logging) } else { Err(mistakes) }
}
