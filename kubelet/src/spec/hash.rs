//! Hashes of sandbox and container specs, in 16 hex digits. While a hash stays the same, nothing restarts.
//!
//! Every field that affects a container is listed by name. Fields that are not listed change without a restart:
//! labels, annotations, probes, preStop, grace period, content of ConfigMaps, documentary ports. Absent, empty and
//! default values add nothing, so that new defaults and fields do not change a hash.

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    Container, EnvVarSource, Pod, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use sha2::{Digest, Sha256};

use super::{app_armor, containers};

/// Hash of a pod's sandbox. A change restarts the whole pod.
pub fn sandbox(pod: &Pod) -> String {
    let mut facts = Canon::default();
    if let Some(spec) = &pod.spec {
        network(&mut facts, spec);
        names(&mut facts, spec);
        facts.flag("hostPID", spec.host_pid);
        facts.flag("hostIPC", spec.host_ipc);
        facts.flag("shareProcessNamespace", spec.share_process_namespace);
        facts.flag("noHostUsers", spec.host_users.map(|users| !users));
        facts.text("runtimeClassName", spec.runtime_class_name.as_deref());
        pod_security(&mut facts, spec);
    }
    facts.finish()
}

/// Hash of a container. A change restarts only that container.
pub fn container(pod: &Pod, name: &str) -> String {
    let mut facts = Canon::default();
    if let Some(spec) = &pod.spec
        && let Some(container) = containers(spec).find(|c| c.name == name)
    {
        process(&mut facts, container);
        // Kubelets before version 0.2 ignored the annotation. The engine's default profile is the same without it.
        let pod_profile = spec.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
        let annotation = app_armor::annotation(pod, container);
        let differs = |value: &&str| pod_profile.is_some() || *value != "runtime/default";
        facts.text("appArmorAnnotation", annotation.filter(differs));
        environment(&mut facts, container);
        for wanted in container.volume_mounts.iter().flatten() {
            let volume = spec.volumes.iter().flatten().find(|v| v.name == wanted.name);
            facts.group("mount", |facts| mount(facts, wanted, volume));
        }
        for device in container.volume_devices.iter().flatten() {
            facts.text("device", Some(&format!("{}:{}", device.name, device.device_path)));
        }
        resources(&mut facts, container);
        if let Some(context) = &container.security_context {
            security(&mut facts, context);
        }
    }
    facts.finish()
}

fn network(facts: &mut Canon, spec: &PodSpec) {
    facts.flag("hostNetwork", spec.host_network);
    for port in containers(spec).flat_map(|c| c.ports.iter().flatten()) {
        let Some(host_port) = port.host_port.filter(|&p| p != 0) else { continue };
        if spec.host_network == Some(true) {
            continue;
        }
        facts.group("hostPort", |facts| {
            facts.number("hostPort", Some(host_port.into()));
            facts.number("containerPort", Some(port.container_port.into()));
            facts.text("protocol", port.protocol.as_deref().filter(|p| *p != "TCP"));
            facts.text("hostIP", port.host_ip.as_deref().filter(|ip| *ip != "0.0.0.0"));
        });
    }
}

fn names(facts: &mut Canon, spec: &PodSpec) {
    facts.text("hostname", spec.hostname.as_deref());
    facts.text("hostnameOverride", spec.hostname_override.as_deref());
    facts.text("subdomain", spec.subdomain.as_deref());
    facts.flag("setHostnameAsFQDN", spec.set_hostname_as_fqdn);
    for alias in spec.host_aliases.iter().flatten() {
        facts.group("hostAlias", |facts| {
            facts.text("ip", Some(&alias.ip));
            facts.list("hostname", alias.hostnames.as_deref());
        });
    }
    facts.text("dnsPolicy", spec.dns_policy.as_deref().filter(|p| *p != "ClusterFirst"));
    if let Some(config) = &spec.dns_config {
        facts.list("nameserver", config.nameservers.as_deref());
        facts.list("search", config.searches.as_deref());
        for option in config.options.iter().flatten() {
            facts.group("dnsOption", |facts| {
                facts.text("name", option.name.as_deref());
                facts.text("value", option.value.as_deref());
            });
        }
    }
}

fn pod_security(facts: &mut Canon, spec: &PodSpec) {
    let Some(context) = &spec.security_context else { return };
    facts.number("runAsUser", context.run_as_user);
    facts.number("runAsGroup", context.run_as_group);
    facts.flag("runAsNonRoot", context.run_as_non_root);
    facts.number("fsGroup", context.fs_group);
    for group in context.supplemental_groups.iter().flatten() {
        facts.number("supplementalGroup", Some(*group));
    }
    facts.text(
        "supplementalGroupsPolicy",
        context.supplemental_groups_policy.as_deref().filter(|p| *p != "Merge"),
    );
    seccomp(facts, context.seccomp_profile.as_ref());
    if let Some(profile) = &context.app_armor_profile {
        facts.text("appArmor", Some(&profile.type_));
        facts.text("appArmorLocalhost", profile.localhost_profile.as_deref());
    }
    se_linux(facts, context.se_linux_options.as_ref());
    let mut sysctls: Vec<_> = context.sysctls.iter().flatten().collect();
    sysctls.sort_by(|a, b| a.name.cmp(&b.name));
    for sysctl in sysctls {
        facts.text("sysctl", Some(&format!("{}={}", sysctl.name, sysctl.value)));
    }
}

fn process(facts: &mut Canon, container: &Container) {
    facts.text("image", container.image.as_deref());
    facts.list("command", container.command.as_deref());
    facts.list("arg", container.args.as_deref());
    facts.text("workingDir", container.working_dir.as_deref());
    facts.flag("stdin", container.stdin);
    facts.flag("stdinOnce", container.stdin_once);
    facts.flag("tty", container.tty);
    let path = container.termination_message_path.as_deref();
    facts.text("terminationMessagePath", path.filter(|p| *p != "/dev/termination-log"));
    facts.text("stopSignal", container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref()));
}

fn environment(facts: &mut Canon, container: &Container) {
    for from in container.env_from.iter().flatten() {
        facts.group("envFrom", |facts| {
            facts.text("prefix", from.prefix.as_deref());
            if let Some(map) = &from.config_map_ref {
                facts.text("configMap", Some(&map.name));
            }
            if let Some(secret) = &from.secret_ref {
                facts.text("secret", Some(&secret.name));
            }
        });
    }
    for var in container.env.iter().flatten() {
        facts.group("env", |facts| {
            facts.text("name", Some(&var.name));
            facts.text("value", var.value.as_deref());
            if let Some(from) = &var.value_from {
                value_from(facts, from);
            }
        });
    }
}

fn value_from(facts: &mut Canon, from: &EnvVarSource) {
    if let Some(map) = &from.config_map_key_ref {
        facts.text("configMap", Some(&map.name));
        facts.text("key", Some(&map.key));
    }
    if let Some(secret) = &from.secret_key_ref {
        facts.text("secret", Some(&secret.name));
        facts.text("key", Some(&secret.key));
    }
    if let Some(field) = &from.field_ref {
        facts.text("field", Some(&field.field_path));
    }
    if let Some(field) = &from.resource_field_ref {
        facts.text("resource", Some(&field.resource));
        facts.text("container", field.container_name.as_deref());
        facts.amount("divisor", field.divisor.as_ref());
    }
    if let Some(file) = &from.file_key_ref {
        facts.text("volume", Some(&file.volume_name));
        facts.text("path", Some(&file.path));
        facts.text("key", Some(&file.key));
    }
}

/// Adds a mount. Its path and source identify it; the content of the source may change.
fn mount(facts: &mut Canon, mount: &VolumeMount, volume: Option<&Volume>) {
    facts.text("path", Some(&mount.mount_path));
    facts.flag("readOnly", mount.read_only);
    facts.text("recursiveReadOnly", mount.recursive_read_only.as_deref().filter(|r| *r != "Disabled"));
    facts.text("subPath", mount.sub_path.as_deref());
    facts.text("subPathExpr", mount.sub_path_expr.as_deref());
    facts.text("propagation", mount.mount_propagation.as_deref().filter(|p| *p != "None"));
    facts.list("option", mount.bind_mount_options.as_deref());
    let Some(volume) = volume else { return };
    if let Some(host) = &volume.host_path {
        facts.text("hostPath", Some(&host.path));
        return;
    }
    // Other volumes are directories named by plugin and volume name.
    facts.text("volume", Some(&volume.name));
    facts.text("medium", volume.empty_dir.as_ref().and_then(|empty| empty.medium.as_deref()));
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let kind = fields.as_object().and_then(|fields| fields.keys().find(|field| *field != "name"));
    facts.text("kind", kind.map(String::as_str));
}

fn resources(facts: &mut Canon, container: &Container) {
    let Some(resources) = &container.resources else { return };
    // Ephemeral storage is measured separately and does not affect the container.
    let shapes = |name: &str| name == "cpu" || name == "memory" || name.starts_with("hugepages-");
    for (name, amount) in resources.requests.iter().flatten().filter(|(name, _)| shapes(name)) {
        // A request that equals the limit is the default.
        if resources.limits.as_ref().and_then(|l| l.get(name)).map(Quantity::of) != Some(Quantity::of(amount))
        {
            facts.amount(&format!("requests.{name}"), Some(amount));
        }
    }
    for (name, amount) in resources.limits.iter().flatten().filter(|(name, _)| shapes(name)) {
        facts.amount(&format!("limits.{name}"), Some(amount));
    }
}

fn security(facts: &mut Canon, context: &SecurityContext) {
    facts.number("runAsUser", context.run_as_user);
    facts.number("runAsGroup", context.run_as_group);
    // For these two fields, `false` differs from an unset field, because it overrides the pod's value and the kernel's
    // default.
    facts.text("runAsNonRoot", context.run_as_non_root.map(|b| if b { "true" } else { "false" }));
    facts.flag("noNewPrivileges", context.allow_privilege_escalation.map(|allowed| !allowed));
    facts.flag("privileged", context.privileged);
    facts.flag("readOnlyRootFilesystem", context.read_only_root_filesystem);
    if let Some(capabilities) = &context.capabilities {
        facts.list("add", capabilities.add.as_deref());
        facts.list("drop", capabilities.drop.as_deref());
    }
    facts.text("procMount", context.proc_mount.as_deref().filter(|p| *p != "Default"));
    seccomp(facts, context.seccomp_profile.as_ref());
    if let Some(profile) = &context.app_armor_profile {
        facts.text("appArmor", Some(&profile.type_));
        facts.text("appArmorLocalhost", profile.localhost_profile.as_deref());
    }
    se_linux(facts, context.se_linux_options.as_ref());
}

fn seccomp(facts: &mut Canon, profile: Option<&SeccompProfile>) {
    let Some(profile) = profile else { return };
    facts.text("seccomp", Some(&profile.type_));
    facts.text("seccompLocalhost", profile.localhost_profile.as_deref());
}

fn se_linux(facts: &mut Canon, options: Option<&SELinuxOptions>) {
    let Some(options) = options else { return };
    facts.text("seLinuxUser", options.user.as_deref());
    facts.text("seLinuxRole", options.role.as_deref());
    facts.text("seLinuxType", options.type_.as_deref());
    facts.text("seLinuxLevel", options.level.as_deref());
}

/// Hashes named values. Each value is written with its length, so that different lists cannot produce the same
/// input.
#[derive(Default)]
struct Canon {
    hash: Sha256,
}

impl Canon {
    fn put(&mut self, name: &str, value: &str) {
        for part in [name, value] {
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            self.put(name, value);
        }
    }

    fn flag(&mut self, name: &str, value: Option<bool>) {
        if value == Some(true) {
            self.put(name, "true");
        }
    }

    /// Adds a number. An unset number differs from zero.
    fn number(&mut self, name: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.put(name, &value.to_string());
        }
    }

    fn list(&mut self, name: &str, values: Option<&[String]>) {
        for value in values.into_iter().flatten() {
            self.put(name, value);
        }
    }

    /// Adds a quantity by value: `1000m` equals `1`.
    fn amount(&mut self, name: &str, value: Option<&Text>) {
        let Some(value) = value else { return };
        match Quantity::of(value) {
            Ok(amount) if amount.is_zero() => {}
            Ok(amount) => self.put(name, &amount.milli().to_string()),
            Err(_) => self.put(name, &value.0),
        }
    }

    /// Adds a group of values as one list element. An empty group also changes the hash.
    fn group(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.put(name, "{");
        fill(self);
        self.put(name, "}");
    }

    fn finish(self) -> String {
        hex::encode(&self.hash.finalize()[..8])
    }
}

#[cfg(test)]
mod tests;
