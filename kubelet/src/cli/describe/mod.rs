//! `kubelet describe pod`: prints the details of a pod for a human reader.

mod container;
mod text;

use std::process::ExitCode;

use ::client::percent_encoded;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Volume;
use serde_json::Value;
use text::{Page, list, pairs, string, time};

use super::args::Describe;
use super::client::{Client, Error};
use super::get::{PODS, ResourceType, full_name, split};
use super::print::{note, out, visible};
use crate::observed::EDIT_PENDING;
use crate::volumes::types::{self, Line};

const JSON: &str = "application/json";

/// Runs the subcommand.
pub async fn run(client: &Client, describe: &Describe) -> anyhow::Result<ExitCode> {
    let (resource, first) = split(&describe.resource);
    anyhow::ensure!(
        ResourceType::find(resource) == Some(PODS),
        "only pods can be described: `kubelet describe pod NAME`"
    );
    let namespace = &describe.place.namespace;
    let mut names: Vec<String> =
        first.into_iter().map(str::to_owned).chain(describe.names.iter().cloned()).collect();
    if names.is_empty() {
        let all = client.json(&PODS.path(Some(namespace)), JSON).await?;
        names = list(&all, "/items").map(|pod| string(pod, "/metadata/name").to_owned()).collect();
        if names.is_empty() {
            note(format_args!("No resources found in {namespace} namespace."));
        }
    }
    let mut missing = Vec::<Error>::new();
    for (at, name) in names.iter().enumerate() {
        let name = match full_name(client, PODS, namespace, name).await {
            Ok(name) => name,
            Err(error) if error.is_not_found() => {
                missing.push(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let pod =
            client.json(&format!("{}/{}", PODS.path(Some(namespace)), percent_encoded(&name)), JSON).await?;
        let uid = string(&pod, "/metadata/uid");
        let selector = format!("involvedObject.name={name},involvedObject.uid={uid}");
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector={}",
            percent_encoded(namespace),
            percent_encoded(&selector)
        );
        let events = client.json(&path, JSON).await?;
        let gap = if at == 0 { "" } else { "\n\n" };
        let text = page(&pod, &events, Timestamp::now());
        out(format!("{gap}{}", visible(&text)).as_bytes())?;
    }
    for error in &missing {
        note(error);
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text that describes one pod.
fn page(pod: &Value, events: &Value, now: Timestamp) -> String {
    let mut page = Page::default();
    let meta = |name: &str| string(pod, &format!("/metadata/{name}"));
    let spec = |name: &str| string(pod, &format!("/spec/{name}"));
    let status = |name: &str| string(pod, &format!("/status/{name}"));
    page.field(0, "Name", meta("name"));
    page.field(0, "Namespace", meta("namespace"));
    if let Some(priority) = pod.pointer("/spec/priority") {
        page.field(0, "Priority", &priority.to_string());
    }
    page.filled(0, "Priority Class Name", spec("priorityClassName"));
    page.field(0, "Service Account", or(spec("serviceAccountName"), "default"));
    let node = spec("nodeName");
    let host = status("hostIP");
    page.field(
        0,
        "Node",
        &if host.is_empty() { or(node, "<none>").to_owned() } else { format!("{node}/{host}") },
    );
    page.filled(0, "Start Time", &time(status("startTime")));
    page.lines(0, "Labels", pairs(pod.pointer("/metadata/labels"), "="));
    page.lines(0, "Annotations", pairs(pod.pointer("/metadata/annotations"), ": "));
    let deletion = meta("deletionTimestamp");
    if deletion.is_empty() {
        page.field(0, "Status", status("phase"));
    } else {
        page.field(0, "Status", &format!("Terminating (until {})", time(deletion)));
        let grace =
            pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
        page.field(0, "Termination Grace Period", &format!("{grace}s"));
    }
    page.filled(0, "Reason", status("reason"));
    page.filled(0, "Message", status("message"));
    page.field(0, "IP", status("podIP"));
    let ips: Vec<&str> = list(pod, "/status/podIPs").map(|ip| string(ip, "/ip")).collect();
    if ips.is_empty() {
        page.field(0, "IPs", "<none>");
    } else {
        page.head(0, "IPs");
        ips.iter().for_each(|ip| page.field(2, "IP", ip));
    }
    for owner in list(pod, "/metadata/ownerReferences").take(1) {
        page.field(0, "Controlled By", &format!("{}/{}", string(owner, "/kind"), string(owner, "/name")));
    }
    for (head, specs, statuses) in [
        ("Init Containers", "/spec/initContainers", "/status/initContainerStatuses"),
        ("Containers", "/spec/containers", "/status/containerStatuses"),
        ("Ephemeral Containers", "/spec/ephemeralContainers", "/status/ephemeralContainerStatuses"),
    ] {
        container::describe(&mut page, pod, head, specs, statuses);
    }
    let conditions: Vec<(&str, &str)> =
        list(pod, "/status/conditions").map(|c| (string(c, "/type"), string(c, "/status"))).collect();
    if !conditions.is_empty() {
        page.head(0, "Conditions");
        page.row(2, "Type", "Status");
        conditions.iter().for_each(|(kind, status)| page.row(2, kind, status));
    }
    let pending = list(pod, "/status/conditions")
        .find(|c| string(c, "/type") == EDIT_PENDING && string(c, "/status") == "True");
    if let Some(edit) = pending {
        page.field(0, "Pending Edit", &format!("{}: {}", string(edit, "/reason"), string(edit, "/message")));
    }
    describe_volumes(&mut page, pod);
    page.field(0, "QoS Class", status("qosClass"));
    page.lines(0, "Node-Selectors", pairs(pod.pointer("/spec/nodeSelector"), "="));
    page.lines(0, "Tolerations", list(pod, "/spec/tolerations").map(toleration).collect());
    let mut text = page.finish();
    text.push_str(&events_table(events, now));
    text
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn toleration(toleration: &Value) -> String {
    let part = |name: &str| string(toleration, &format!("/{name}"));
    let mut text = part("key").to_owned();
    if !part("value").is_empty() {
        text.push_str(&format!("={}", part("value")));
    }
    if !part("effect").is_empty() {
        text.push_str(&format!(":{}", part("effect")));
    }
    if part("operator") == "Exists" {
        text.push_str(if text.is_empty() { "op=Exists" } else { " op=Exists" });
    }
    if let Some(seconds) = toleration.get("tolerationSeconds") {
        text.push_str(&format!(" for {seconds}s"));
    }
    text
}

fn events_table(events: &Value, now: Timestamp) -> String {
    let mut items: Vec<&Value> = list(events, "/items").collect();
    if items.is_empty() {
        return "Events:                      <none>\n".to_owned();
    }
    items.sort_by_key(|event| string(event, "/lastTimestamp"));
    let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![
        row(["Type", "Reason", "Age", "From", "Message"]),
        row(["----", "------", "----", "----", "-------"]),
    ];
    for event in items {
        let ago = |name: &str| {
            let at = string(event, name).parse::<Timestamp>().unwrap_or(now);
            api::table::duration(now.duration_since(at).as_secs())
        };
        let count = event.get("count").and_then(Value::as_i64).unwrap_or(1);
        let age = match count {
            ..=1 => ago("/lastTimestamp"),
            _ => format!("{} (x{count} over {})", ago("/lastTimestamp"), ago("/firstTimestamp")),
        };
        let part = |name: &str| string(event, name).trim().to_owned();
        rows.push(vec![part("/type"), part("/reason"), age, part("/source/component"), part("/message")]);
    }
    let mut columns = super::print::Columns::default();
    let table = columns.lines(&rows);
    let lines: String = table.lines().map(|line| format!("  {line}\n")).collect();
    format!("Events:\n{lines}")
}

/// Describes the volumes of a pod.
fn describe_volumes(page: &mut Page, pod: &Value) {
    if list(pod, "/spec/volumes").next().is_none() {
        page.field(0, "Volumes", "<none>");
        return;
    }
    page.head(0, "Volumes");
    for volume in list(pod, "/spec/volumes") {
        page.head(2, string(volume, "/name"));
        source(page, volume);
    }
}

fn source(page: &mut Page, volume: &Value) {
    let typed = serde_json::from_value::<Volume>(volume.clone()).ok();
    let Some(source) = typed.as_ref().and_then(types::of) else {
        let kind =
            volume.as_object().into_iter().flatten().map(|(name, _)| name).find(|name| *name != "name");
        page.field(4, "Type", kind.map_or("<unknown>", String::as_str));
        return;
    };
    for line in source.describe() {
        match line {
            Line::Field(label, value) => page.field(4, label, &value),
            Line::Heading(text) => page.head(4, text),
            Line::Item(text) => page.line(6, &text),
        }
    }
}

#[cfg(test)]
mod tests;
