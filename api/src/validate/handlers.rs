//! Validates probes and lifecycle hooks.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, PodSpec, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names::{is_header_name, is_port_name, not_negative, one_of, port_number, required};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// Validates the probes and hooks of a main container or sidecar.
pub(super) fn of_container(container: &Container, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(lifecycle) = &container.lifecycle {
        let path = &path.field("lifecycle");
        for (hook, field) in [(&lifecycle.post_start, "postStart"), (&lifecycle.pre_stop, "preStop")] {
            let Some(hook) = hook else { continue };
            let path = &path.field(field);
            let handler = Handler {
                exec: hook.exec.as_ref(),
                http_get: hook.http_get.as_ref(),
                tcp_socket: hook.tcp_socket.as_ref(),
                sleep: hook.sleep.as_ref(),
                grpc: None,
            };
            handler.check(spec, path, errors);
        }
    }
    for (probe, field) in [
        (&container.liveness_probe, "livenessProbe"),
        (&container.readiness_probe, "readinessProbe"),
        (&container.startup_probe, "startupProbe"),
    ] {
        let Some(probe) = probe else { continue };
        let path = &path.field(field);
        check_probe(probe, spec, path, errors);
        if field == "readinessProbe" {
            if probe.termination_grace_period_seconds.is_some() {
                let what = "a readiness probe does not terminate containers";
                errors.add(&path.field("terminationGracePeriodSeconds"), what, "remove it");
            }
        } else if probe.success_threshold != Some(1) {
            let what = format!("it must be 1 for a {field}");
            errors.add(&path.field("successThreshold"), what, "write 1, or remove it");
        }
    }
}

fn check_probe(probe: &Probe, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    handler.check(spec, path, errors);
    for (number, field) in [
        (probe.initial_delay_seconds, "initialDelaySeconds"),
        (probe.timeout_seconds, "timeoutSeconds"),
        (probe.period_seconds, "periodSeconds"),
        (probe.success_threshold, "successThreshold"),
        (probe.failure_threshold, "failureThreshold"),
    ] {
        not_negative(i64::from(number.unwrap_or_default()), &path.field(field), errors);
    }
    if probe.termination_grace_period_seconds.is_some_and(|seconds| seconds <= 0) {
        errors.add(
            &path.field("terminationGracePeriodSeconds"),
            "it must be more than 0",
            "write 1 or more, or remove it",
        );
    }
}

/// The action of a probe or hook. Exactly one must be set.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl Handler<'_> {
    fn check(&self, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
        let set = [
            self.exec.map(|_| "exec"),
            self.http_get.map(|_| "httpGet"),
            self.tcp_socket.map(|_| "tcpSocket"),
            self.grpc.map(|_| "grpc"),
            self.sleep.map(|_| "sleep"),
        ];
        let set: Vec<&str> = set.into_iter().flatten().collect();
        match set.as_slice() {
            [] => required(path, "add what to do: exec, httpGet or tcpSocket", errors),
            [_] => {}
            [_, second, ..] => {
                errors.add(
                    &path.field(second),
                    format!("there are several: {}", set.join(", ")),
                    "keep one of them",
                );
            }
        }
        if self.exec.is_some_and(|exec| exec.command.as_ref().is_none_or(Vec::is_empty)) {
            required(&path.field("exec").field("command"), "add the command, as a list", errors);
        }
        if let Some(http_get) = self.http_get {
            check_http_get(http_get, &path.field("httpGet"), errors);
        }
        if let Some(tcp_socket) = self.tcp_socket {
            port(&tcp_socket.port, &path.field("tcpSocket").field("port"), errors);
        }
        if let Some(grpc) = self.grpc {
            port_number(grpc.port, &path.field("grpc").field("port"), errors);
            if let Some(mode) = &grpc.mode {
                one_of(mode, &["Plaintext", "TLS"], &path.field("grpc").field("mode"), errors);
            }
        }
        if let (Some(sleep), Some(grace)) = (self.sleep, spec.termination_grace_period_seconds)
            && !(0..=grace.max(0)).contains(&sleep.seconds)
        {
            let what = format!("{} s is longer than the grace period of {grace} s", sleep.seconds);
            let remedy = "sleep less, or raise `spec.terminationGracePeriodSeconds`";
            errors.add(&path.field("sleep").field("seconds"), what, remedy);
        }
    }
}

fn check_http_get(action: &HTTPGetAction, path: &Path<'_>, errors: &mut FieldErrors) {
    port(&action.port, &path.field("port"), errors);
    one_of(action.scheme.as_deref().unwrap_or_default(), &["HTTP", "HTTPS"], &path.field("scheme"), errors);
    let headers = &path.field("httpHeaders");
    for (index, header) in action.http_headers.iter().flatten().enumerate() {
        if !is_header_name(&header.name) {
            let what = format!("`{}` is not a valid header name", header.name.escape_debug());
            errors.add(&headers.index(index).field("name"), what, "use letters, digits and `-`");
        }
    }
}

/// Validates a port number, or the name of a container port.
fn port(port: &IntOrString, path: &Path<'_>, errors: &mut FieldErrors) {
    match port {
        IntOrString::Int(0) => required(path, "add the port", errors),
        IntOrString::Int(number) => port_number(*number, path, errors),
        IntOrString::String(name) if name.parse::<i32>().is_ok() => {
            errors.add(
                path,
                format!("\"{name}\" is a name here, not a number"),
                format!("remove the quotes: {name}"),
            );
        }
        IntOrString::String(name) if !is_port_name(name) => {
            let what = format!("`{name}` is not a valid port name");
            errors.add(path, what, "write a number, or the name of one of the container's ports");
        }
        IntOrString::String(_) => {}
    }
}
