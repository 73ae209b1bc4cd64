//! Commands of all kubectls of this machine that need no running pod.
//!
//! `lines/` has the table, one file per subject; `files/` has its input files; [`line`] defines the format. Every
//! kubectl runs all lines in its own world. A kubectl that does not support a command must print an error; no line is
//! skipped.

mod commands;
mod line;
mod world;

use futures_util::future::join_all;
use tests::{Master, kubectls};

use self::line::Line;
use self::world::World;

/// The lines of every subject.
const SUBJECTS: &[(&str, &str)] = &[
    ("definitions", include_str!("lines/definitions.txt")),
    ("learning", include_str!("lines/learning.txt")),
    ("making", include_str!("lines/making.txt")),
    ("nodes", include_str!("lines/nodes.txt")),
    ("people", include_str!("lines/people.txt")),
    ("pods", include_str!("lines/pods.txt")),
    ("reading", include_str!("lines/reading.txt")),
    ("workloads", include_str!("lines/workloads.txt")),
    ("writing", include_str!("lines/writing.txt")),
];

fn lines(subject: &str) -> Vec<Line> {
    let (_, text) = SUBJECTS.iter().find(|(name, _)| *name == subject).unwrap();
    Line::all(text)
}

/// Runs the lines of a subject with all kubectls concurrently, and reports all failures.
async fn plays(subject: &str) {
    // Some pods are on a node that does not exist. The pod garbage collector would delete them after 40 seconds.
    let master = Master::without_workloads_and(&["-pod-garbage-collector-controller"]).await;
    let kubectls = kubectls();
    let worlds = kubectls.iter().map(async |kubectl| {
        let mut world = World::new(&master, subject, kubectl).await;
        let mut faults = Vec::new();
        for line in lines(subject) {
            let failure = world.plays(&line).await;
            faults.extend(failure.err().map(|fault| {
                format!("lines/{subject}.txt:{}, kubectl 1.{}: {fault}", line.number, kubectl.minor)
            }));
        }
        faults
    });
    let faults = join_all(worlds).await.concat();
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n\n"), master.log());
}

#[tokio::test]
async fn definitions() {
    plays("definitions").await;
}

#[tokio::test]
async fn learning() {
    plays("learning").await;
}

#[tokio::test]
async fn making() {
    plays("making").await;
}

#[tokio::test]
async fn nodes() {
    plays("nodes").await;
}

#[tokio::test]
async fn people() {
    plays("people").await;
}

#[tokio::test]
async fn pods() {
    plays("pods").await;
}

#[tokio::test]
async fn reading() {
    plays("reading").await;
}

#[tokio::test]
async fn workloads() {
    plays("workloads").await;
}

#[tokio::test]
async fn writing() {
    plays("writing").await;
}
