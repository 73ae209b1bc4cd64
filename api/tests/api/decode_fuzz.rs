//! Fuzz test of the decoder with damaged manifests: it never panics, stays within bounded time and memory, and accepts
//! its own output.
//!
//! `CORACLE_FUZZ_CASES=1000000 cargo test -p api --test api decode_fuzz` runs more cases; `CORACLE_FUZZ_SEED=N` replays one
//! case.

use std::panic::catch_unwind;
use std::time::Duration;

use crate::mutations::{Random, SEEDS, manifest};
use crate::process_usage::{cpu_time, memory_kib};
use api::Decoded;
use api::object::Object;

/// Covers each type of damage many times within a few seconds in a debug build.
const CASES: u64 = 8_000;
/// Limit for the CPU time of a small manifest in a debug build; a thousandth is typical.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Limit for the peak memory of the process. The test itself needs a few MiB.
const MEMORY_KIB: u64 = 256 << 10;

#[test]
fn damaged_manifests() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("CORACLE_FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CORACLE_FUZZ_CASES").unwrap_or(CASES),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let (mut accepted, mut reported) = (0, 0);
    std::thread::scope(|scope| {
        let run = |offset: u64| {
            let seeds = seeds.clone().skip(offset as usize).step_by(threads as usize);
            scope.spawn(move || {
                seeds.fold((0, 0), |(objects, problems), seed| {
                    let decoded = one(seed);
                    (objects + decoded.objects.len(), problems + decoded.problems.len())
                })
            })
        };
        let workers: Vec<_> = (0..threads).map(run).collect();
        for worker in workers {
            let (objects, problems) = worker.join().unwrap();
            accepted += objects;
            reported += problems;
        }
    });
    let cases = seeds.end - seeds.start;
    println!("{cases} manifests: {accepted} objects, {reported} problems, {} KiB at most", memory_kib());
    assert!(cases < 100 || (accepted > 0 && reported > 0), "the damage is neither too light nor too heavy");
    assert!(memory_kib() < MEMORY_KIB, "{} KiB", memory_kib());
}

#[test]
fn fuzz_seed_manifests_are_valid() {
    for manifest in SEEDS {
        let problems: Vec<String> =
            api::decode(manifest.as_bytes()).problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, Vec::<String>::new(), "of\n{manifest}");
    }
}

/// Decodes the manifest of a seed and checks the result.
fn one(seed: u64) -> Decoded {
    let bytes = manifest(&mut Random::new(seed));
    let start = cpu_time();
    let decoded = catch_unwind(|| api::decode(&bytes)).unwrap_or_else(|_| report(seed, &bytes, "panicked"));
    let took = cpu_time().saturating_sub(start);
    if took > TIME_LIMIT {
        report(seed, &bytes, &format!("took {took:?}"))
    }
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 2;
    for problem in &decoded.problems {
        let placed = (1..=lines).contains(&problem.line) && problem.column > 0;
        if !placed || problem.what.is_empty() || problem.remedy.is_empty() || problem.to_string().len() > 4096
        {
            report(seed, &bytes, &format!("said {problem:?}"))
        }
    }
    if decoded.objects.is_empty() && decoded.problems.is_empty() && !holds_only_empty_lists(&bytes) {
        report(seed, &bytes, "vanished")
    }
    for object in &decoded.objects {
        again(seed, &bytes, object);
    }
    decoded
}

/// Checks that a decoded object, written as JSON, decodes to the same object.
fn again(seed: u64, bytes: &[u8], object: &Object) {
    let mut value = match object {
        Object::Pod(pod) => serde_json::to_value(pod),
        Object::ConfigMap(config_map) => serde_json::to_value(config_map),
        Object::Secret(secret) => serde_json::to_value(secret),
        Object::Service(service) => serde_json::to_value(service),
    }
    .unwrap();
    value["apiVersion"] = "v1".into();
    value["kind"] = object.kind().into();
    let decoded = api::decode(value.to_string().as_bytes());
    if decoded.objects.as_slice() != [object.clone()] || !decoded.problems.is_empty() {
        report(seed, bytes, &format!("accepted {object:?}, then {decoded:?}"))
    }
}

/// An empty list has neither objects nor problems.
fn holds_only_empty_lists(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("List") || text.contains("BoundPods")
}

fn report(seed: u64, bytes: &[u8], what: &str) -> ! {
    panic!("CORACLE_FUZZ_SEED={seed} {what}\n{}", String::from_utf8_lossy(bytes))
}
