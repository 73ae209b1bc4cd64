//! `kubelet logs`: prints a container's log, and follows it if requested.

use std::process::ExitCode;

use ::client::percent_encoded;
use http_body_util::BodyExt as _;

use super::args::Logs;
use super::client::Client;
use super::flags;
use super::pod::ContainerRef;
use super::print::out;

/// Runs the subcommand.
pub async fn run(client: &Client, logs: &Logs) -> anyhow::Result<ExitCode> {
    let container = logs.container.as_deref().or(logs.container_last.as_deref());
    let query = query(logs)?;
    let place = ContainerRef::find(client, &logs.place.namespace, &logs.pod, container).await?;
    let path = format!("{}?container={}{query}", place.path("log"), percent_encoded(&place.container));
    let mut body = client.get(&path, "*/*").await?.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            out(&data)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn query(logs: &Logs) -> anyhow::Result<String> {
    let mut query = String::new();
    let mut add = |name: &str, value: &str| query.push_str(&format!("&{name}={}", percent_encoded(value)));
    for (name, on) in [("follow", logs.follow), ("previous", logs.previous), ("timestamps", logs.timestamps)]
    {
        if on {
            add(name, "true");
        }
    }
    match logs.tail.as_deref() {
        None | Some("-1") => {}
        Some(tail) => add("tailLines", tail),
    }
    if let Some(since) = &logs.since {
        let since =
            flags::duration(since).map_err(|wanted| anyhow::anyhow!("--since: \"{since}\" {wanted}"))?;
        // `sinceSeconds` is a whole number of at least 1.
        let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
        add("sinceSeconds", &seconds.max(1).to_string());
    }
    if let Some(since) = &logs.since_time {
        add("sinceTime", since);
    }
    if let Some(limit) = &logs.limit_bytes {
        add("limitBytes", limit);
    }
    Ok(query)
}
