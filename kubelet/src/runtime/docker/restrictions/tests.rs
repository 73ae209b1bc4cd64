//! Detection of engine restrictions, against a stub engine.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::*;
use crate::runtime::ExecRequest;
use crate::runtime::docker::exec;
use crate::runtime::docker::stub::{GENERIC, Stub};

fn body(score: i64) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some("i".to_owned()),
        host_config: Some(HostConfig { oom_score_adj: Some(score), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    }
}

fn score(container: &Value) -> i64 {
    container["HostConfig"]["OomScoreAdj"].as_i64().unwrap_or_default()
}

/// The score of a container that requests -997.
async fn given(docker: &Docker) -> Option<i64> {
    let mut wanted = body(-997);
    docker.restrictions.adapt(docker, &mut wanted).await.ok()?;
    wanted.host_config.unwrap().oom_score_adj
}

#[tokio::test]
async fn generic_failure_is_attributed_to_the_oom_score_only_after_a_start_without_it() {
    for message in [GENERIC, "write /proc/self/oom_score_adj: permission denied"] {
        let (stub, docker, _directory) = Stub::start().await;
        stub.starts(|container| if score(container) < 0 { Err(message.to_owned()) } else { Ok(()) });
        assert_eq!(given(&docker).await, Some(0), "{message}");
    }
}

#[tokio::test]
async fn a_generic_start_failure_decides_nothing_about_oom_scores() {
    let (stub, docker, _directory) = Stub::start().await;
    stub.starts(|_| Err(GENERIC.to_owned()));
    assert_eq!(given(&docker).await, None, "it is asked again");
    stub.starts(|_| Ok(()));
    assert_eq!(given(&docker).await, Some(-997));
}

#[tokio::test]
async fn other_start_failures_do_not_disable_oom_scores() {
    let (stub, docker, _directory) = Stub::start().await;
    assert_eq!(given(&docker).await, Some(-997));
    let id = create::create(&docker, "broken", &body(-997)).await.unwrap();
    stub.starts(|container| if score(container) == -997 { Err(GENERIC.to_owned()) } else { Ok(()) });
    let failed = lifecycle::start(&docker, &id).await.unwrap_err();
    assert!(failed.to_string().contains("final child's PID"), "{failed}");
    assert_eq!(given(&docker).await, Some(-997));
}

#[tokio::test]
async fn a_command_on_an_engine_that_does_not_answer_ends_within_fifteen_seconds() {
    for hanging in ["/exec", "/start"] {
        let (stub, docker, _directory) = Stub::start().await;
        stub.hangs(hanging);
        tokio::time::pause();
        let start = Instant::now();
        let request = ExecRequest { command: vec!["true".to_owned()], stdin: false, tty: false };
        let done = timeout(Duration::from_secs(600), exec::start(&docker, "c", &request)).await.unwrap();
        assert!(done.is_err());
        // Timers are rounded up to milliseconds.
        assert!(start.elapsed() < Duration::from_millis(15_100), "{hanging}: {:?}", start.elapsed());
        tokio::time::resume();
    }
}
