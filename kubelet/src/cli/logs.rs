//! `kubelet logs`: prints logs of containers, of one pod or of the pods with some labels, and follows them if requested.

use std::process::ExitCode;

use ::client::percent_encoded;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::args::Logs;
use super::client::Client;
use super::flags;
use super::get::PODS;
use super::pod::ContainerRef;
use super::print::{note, out};

/// Number of lines per container if pods are selected by labels and `--tail` is not given, as in kubectl.
const SELECTED_LINES: &str = "10";

/// Runs the subcommand.
pub async fn run(client: &Client, logs: &Logs) -> anyhow::Result<ExitCode> {
    let query = query(logs)?;
    let containers = containers(client, logs).await?;
    if containers.is_empty() {
        note(format_args!("No resources found in {} namespace.", logs.place.namespace));
        return Ok(ExitCode::SUCCESS);
    }
    let streams: Vec<LogStream> =
        containers.iter().map(|container| LogStream::new(container, logs, &query)).collect();
    if !logs.follow {
        for stream in &streams {
            stream.print(client, false, logs.ignore_errors).await?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(
        streams.len() <= logs.max_log_requests,
        "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests \
         to increase the limit",
        streams.len(),
        logs.max_log_requests
    );
    // Lines of several logs must not mix.
    let by_line = streams.len() > 1;
    let printed =
        join_all(streams.iter().map(|stream| stream.print(client, by_line, logs.ignore_errors))).await;
    printed.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(ExitCode::SUCCESS)
}

/// The containers whose logs are printed.
async fn containers(client: &Client, logs: &Logs) -> anyhow::Result<Vec<ContainerRef>> {
    let namespace = &logs.place.namespace;
    let container = logs.container.as_deref().or(logs.container_last.as_deref());
    anyhow::ensure!(
        !logs.all_containers || container.is_none(),
        "--all-containers=true should not be specified with container name {}",
        container.unwrap_or_default()
    );
    let pods = match (&logs.pod, &logs.selector) {
        (Some(pod), _) => vec![pod.clone()],
        (None, selector) => {
            let selector = percent_encoded(selector.as_deref().unwrap_or_default());
            let path = format!("{}?labelSelector={selector}", PODS.path(Some(namespace)));
            let list = client.json(&path, "application/json").await?;
            let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|pod| Some(pod.pointer("/metadata/name")?.as_str()?.to_owned())).collect()
        }
    };
    let mut containers = Vec::new();
    for pod in &pods {
        if logs.all_containers {
            containers.extend(ContainerRef::all(client, namespace, pod).await?);
        } else {
            containers.push(ContainerRef::find(client, namespace, pod, container).await?);
        }
    }
    Ok(containers)
}

/// The log of one container.
struct LogStream {
    path: String,
    /// Prefix of each line; may be empty.
    prefix: String,
}

impl LogStream {
    fn new(container: &ContainerRef, logs: &Logs, query: &str) -> Self {
        let ContainerRef { pod, container: name, .. } = container;
        Self {
            path: format!("{}?container={}{query}", container.path("log"), percent_encoded(name)),
            prefix: if logs.prefix { format!("[pod/{pod}/{name}] ") } else { String::new() },
        }
    }

    /// Prints the log until its end: in the pieces in which it arrives, or in whole lines.
    async fn print(&self, client: &Client, by_line: bool, ignore_errors: bool) -> anyhow::Result<()> {
        let mut body = match client.get(&self.path, "*/*").await {
            Ok(answer) => answer.into_body(),
            Err(error) if ignore_errors => {
                note(format_args!("error: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut lines = Lines { prefix: self.prefix.as_bytes(), pending: Vec::new() };
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if by_line || !self.prefix.is_empty() {
                out(&lines.complete(&data))?;
            } else {
                out(&data)?;
            }
        }
        out(&lines.rest())
    }
}

/// Collects pieces of a log into lines with a prefix.
struct Lines<'a> {
    prefix: &'a [u8],
    /// The last line, which has no end yet. Its length is bounded by the limit of the kubelet for a line.
    pending: Vec<u8>,
}

impl Lines<'_> {
    /// The lines that are complete with this piece.
    fn complete(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut complete = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(part);
            if part.ends_with(b"\n") {
                complete.extend_from_slice(self.prefix);
                complete.append(&mut self.pending);
            }
        }
        complete
    }

    /// The last line if it has no end.
    fn rest(mut self) -> Vec<u8> {
        if self.pending.is_empty() {
            Vec::new()
        } else {
            [self.prefix, &std::mem::take(&mut self.pending)].concat()
        }
    }
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
        None if logs.selector.is_some() => add("tailLines", SELECTED_LINES),
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

#[cfg(test)]
mod tests {
    //! Tests of lines and queries.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use clap::Parser as _;

    use super::{Lines, query};
    use crate::cli::args::{Cli, Verb};

    #[test]
    fn lines_get_their_prefix_once() {
        let mut lines = Lines { prefix: b"> ", pending: Vec::new() };
        assert_eq!(lines.complete(b"a\nb"), b"> a\n");
        assert_eq!(lines.complete(b"c"), b"");
        assert_eq!(lines.complete(b"\n\nd"), b"> bc\n> \n");
        assert_eq!(lines.rest(), b"> d");
    }

    #[test]
    fn a_selector_limits_the_lines_unless_tail_is_given() {
        for (flags, expected) in [
            ("web", ""),
            ("-l app=web", "&tailLines=10"),
            ("-l app=web --tail -1", ""),
            ("-l app=web --tail 3 -f", "&follow=true&tailLines=3"),
            ("web --since 1500ms", "&sinceSeconds=2"),
        ] {
            let line = ["kubelet", "logs"].into_iter().chain(flags.split_whitespace());
            let Verb::Logs(logs) = Cli::parse_from(line).verb else { panic!("{flags}") };
            assert_eq!(query(&logs).unwrap(), expected, "{flags}");
        }
    }
}
