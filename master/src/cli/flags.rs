//! Converts the flags of `master run` to [`Options`] and collects all errors.

use std::path::PathBuf;

use apiserver::storage::etcd::Endpoint;
use command::{Logging, Values, commas};

use super::args::{self, RunFlags};
use super::values;
use super::{approval, config, pod_addresses, storage};
use crate::options::{Controllers, NodeLifecycle, Options};

/// The parsed flags.
#[derive(Debug)]
pub struct Read {
    pub options: Options,
    /// The log settings.
    pub logging: Logging,
}

/// Parses the flags and the text of the `--config` file.
///
/// # Errors
/// If flags are invalid. The error lists all mistakes, one per line.
pub fn read(flags: &RunFlags, data_dir: Option<PathBuf>, file: Option<&[u8]>) -> Result<Read, Vec<String>> {
    let mut read = Flags { mistakes: Vec::new(), refused: Vec::new(), file: None };
    let mut is_file_whole = true;
    let mut options = Options::default();
    let mut logging = Logging::default();
    let mut directory = data_dir;
    if let (Some(path), Some(text)) = (&flags.config, file) {
        let path = path.display().to_string();
        let found = config::read(text);
        is_file_whole = found.mistakes.is_empty();
        read.mistakes.extend(found.mistakes.into_iter().map(|mistake| format!("{path}: {mistake}")));
        read.file = Some(path);
        read.apply(&found.flags, &mut options, &mut logging);
        read.file = None;
        directory = directory.or(found.data_dir);
    }
    if let Some(directory) = directory {
        // An absolute path stays valid if the working directory changes.
        match std::path::absolute(&directory) {
            Ok(path) => options.data_dir = path,
            Err(error) => read.mistakes.push(format!("--data-dir: \"{}\" {error}", directory.display())),
        }
    }
    read.apply(flags, &mut options, &mut logging);
    // Flags are only validated together if each of them was parsed.
    let are_read =
        |names: &[&str]| is_file_whole && !read.refused.iter().any(|name| names.contains(&name.as_str()));
    let of_storage = are_read(storage::FLAGS).then(|| storage::check(&options));
    let of_approval = are_read(approval::FLAGS).then(|| approval::check(&options.approval, &options.nodes));
    let of_pods = are_read(pod_addresses::FLAGS).then(|| pod_addresses::check(&options.pods));
    let plugins = &options.admission_plugins;
    let twice = plugins.enabled.iter().filter(|name| plugins.disabled.contains(name));
    read.mistakes.extend(
        twice.map(|name| {
            format!("--enable-admission-plugins and --disable-admission-plugins both name {name}")
        }),
    );
    read.mistakes.extend(of_storage.into_iter().chain(of_approval).chain(of_pods).flatten());
    if !read.mistakes.is_empty() {
        return Err(read.mistakes);
    }
    Ok(Read { options, logging })
}

/// Parses the flags of `master controllers`.
///
/// # Errors
/// If flags are invalid. The error lists all mistakes, one per line.
pub fn of_controllers(flags: &args::Controllers) -> Result<(Controllers, NodeLifecycle), Vec<String>> {
    let mut read = Flags { mistakes: Vec::new(), refused: Vec::new(), file: None };
    let (mut which, mut lifecycle) = (Controllers::default(), NodeLifecycle::default());
    read.set("--controllers", &flags.controllers, values::controllers, &mut which);
    read.lifecycle(&flags.node_monitor_grace_period, &flags.node_eviction_rate, &mut lifecycle);
    if read.mistakes.is_empty() { Ok((which, lifecycle)) } else { Err(read.mistakes) }
}

struct Flags {
    mistakes: Vec<String>,
    /// Flags with invalid values.
    refused: Vec<String>,
    /// The file that is being parsed. `None` for the command line.
    file: Option<String>,
}

impl Flags {
    fn apply(&mut self, flags: &RunFlags, options: &mut Options, logging: &mut Logging) {
        let (mut bind, mut port) = (options.address.ip(), options.address.port());
        self.set("--bind-address", &flags.bind_address, values::ip, &mut bind);
        self.set("--secure-port", &flags.secure_port, values::port, &mut port);
        options.address = (bind, port).into();
        let reachable = |text: &str| values::reachable_ip(text).map(Some);
        self.set("--advertise-address", &flags.advertise_address, reachable, &mut options.advertise_address);
        self.extend("--tls-san", &commas(&flags.tls_san), values::server_name, &mut options.tls_san);
        let (enabled, disabled) = (&flags.enable_admission_plugins, &flags.disable_admission_plugins);
        let plugins = &mut options.admission_plugins;
        let plugin = values::admission_plugin;
        self.extend("--enable-admission-plugins", &commas(enabled), plugin, &mut plugins.enabled);
        self.extend("--disable-admission-plugins", &commas(disabled), plugin, &mut plugins.disabled);
        self.extend(
            "--service-cluster-ip-range",
            &commas(&flags.service_cluster_ip_range),
            values::service_range,
            &mut options.service_ranges,
        );
        let pods = &mut options.pods;
        self.extend("--cluster-cidr", &commas(&flags.cluster_cidr), pod_addresses::range, &mut pods.ranges);
        self.set("--allocate-node-cidrs", &flags.allocate_node_cidrs, values::is_true, &mut pods.are_given);
        let piece = |text: &str| values::small_number(text).map(Some);
        self.set("--node-cidr-mask-size", &flags.node_cidr_mask_size, piece, &mut pods.piece);
        self.set("--node-cidr-mask-size-ipv4", &flags.node_cidr_mask_size_ipv4, piece, &mut pods.piece_v4);
        self.set("--node-cidr-mask-size-ipv6", &flags.node_cidr_mask_size_ipv6, piece, &mut pods.piece_v6);
        self.set("--cluster-domain", &flags.cluster_domain, values::domain, &mut options.cluster_domain);
        self.set("--storage", &flags.storage, storage::kind, &mut options.storage);
        self.extend(
            "--etcd-servers",
            &commas(&flags.etcd_servers),
            Endpoint::parse,
            &mut options.etcd.servers,
        );
        self.set("--etcd-cafile", &flags.etcd_cafile, storage::file, &mut options.etcd.authority);
        self.set("--etcd-certfile", &flags.etcd_certfile, storage::file, &mut options.etcd.certificate);
        self.set("--etcd-keyfile", &flags.etcd_keyfile, storage::file, &mut options.etcd.key);
        let approval = &mut options.approval;
        self.set("--csr-approval-policy", &flags.csr_approval_policy, approval::policy, &mut approval.policy);
        let listed = commas(&flags.csr_approval_allowlist);
        self.extend("--csr-approval-allowlist", &listed, approval::allowed, &mut approval.allowlist);
        self.set("--csr-approval-webhook", &flags.csr_approval_webhook, storage::file, &mut approval.webhook);
        self.set("--node-admission", &flags.node_admission, approval::mode, &mut options.nodes.mode);
        let networks = commas(&flags.node_allowlist);
        self.extend("--node-allowlist", &networks, values::network, &mut options.nodes.allowlist);
        let (grace, rate) = (&flags.node_monitor_grace_period, &flags.node_eviction_rate);
        self.lifecycle(grace, rate, &mut options.lifecycle);
        let (issued, own) = (&flags.cluster_signing_duration, &flags.serving_cert_duration);
        self.set("--cluster-signing-duration", issued, values::life, &mut options.lifetimes.issued);
        self.set("--serving-cert-duration", own, values::life, &mut options.lifetimes.serving);
        self.extend(
            "--kubelet-preferred-address-types",
            &commas(&flags.kubelet_preferred_address_types),
            values::address_type,
            &mut options.kubelet_addresses,
        );
        self.set("--controllers", &flags.controllers, values::controllers, &mut options.controllers);
        let gates = commas(&flags.scheduling_gates);
        self.extend("--scheduling-gates", &gates, values::gate, &mut options.scheduling_gates);
        self.set("--scheduler", &flags.scheduler, values::is_true, &mut options.scheduler);
        self.set("--addons", &flags.addons, storage::file, &mut options.addons);
        let of_scheduler = &mut options.scheduler_config;
        self.set("--scheduler-config", &flags.scheduler_config, storage::file, of_scheduler);
        self.set("--v", &flags.v, values::small_number, &mut logging.verbosity);
        self.set("--log-format", &flags.log_format, Logging::format, &mut logging.json);
    }

    fn lifecycle(&mut self, grace: &Option<String>, rate: &Option<String>, lifecycle: &mut NodeLifecycle) {
        self.set("--node-monitor-grace-period", grace, values::grace, &mut lifecycle.grace);
        self.set("--node-eviction-rate", rate, values::pace, &mut lifecycle.eviction_pace);
    }
}

impl Values for Flags {
    fn refuse(&mut self, name: &str, text: &str, wanted: &str) {
        self.refused.push(name.to_owned());
        let name = match &self.file {
            None => name.to_owned(),
            Some(path) => format!("{path}: {}", config::field(name)),
        };
        self.mistakes.push(format!("{name}: \"{text}\" {wanted}"));
    }
}

#[cfg(test)]
mod tests;
