//! Tests of valid and invalid configurations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn read(rest: &str) -> Result<Vec<(String, ScoringStrategy)>, String> {
    let config = Config::read(format!("{HEAD}{rest}").as_bytes());
    let named = |profile: Profile| (profile.name, profile.strategy);
    config.map(|config| config.profiles.into_iter().map(named).collect()).map_err(|all| all.join("; "))
}

fn profile(rest: &str) -> Result<Vec<(String, ScoringStrategy)>, String> {
    read(&format!("profiles: [{{schedulerName: one, {rest}}}]"))
}

#[test]
fn each_profile_has_its_name_and_scoring_strategy() {
    let default_constraints = vec![("default-scheduler".to_owned(), ScoringStrategy::LeastAllocated)];
    assert_eq!(read(""), Ok(default_constraints.clone()));
    assert_eq!(read("profiles: [{}]"), Ok(default_constraints));
    let two = read(
        "profiles:\n- {}\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      \
         scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n",
    );
    let packing = ("packing".to_owned(), ScoringStrategy::MostAllocated);
    assert_eq!(two, Ok(vec![("default-scheduler".to_owned(), ScoringStrategy::LeastAllocated), packing]));
    let none = profile("plugins: {score: {disabled: [{name: NodeResourcesFit}]}}");
    assert_eq!(none, Ok(vec![("one".to_owned(), ScoringStrategy::Disabled)]));
}

#[test]
fn extender_config_enables_only_the_configured_verbs() {
    let text = "extenders:\n- urlPrefix: http://127.0.0.1:8888/scheduler/\n  filterVerb: filter\n  prioritizeVerb: rank\n  \
                weight: 2\n  httpTimeout: 100ms\n  nodeCacheCapable: true\n  ignorable: true\n  managedResources:\n  - {name: \
                example.com/gpu, ignoredByScheduler: true}\n";
    let config = Config::read(format!("{HEAD}{text}").as_bytes()).unwrap();
    let [only] = &*config.extenders else { panic!("{config:?}") };
    assert_eq!(only.client.url(), "http://127.0.0.1:8888/scheduler");
    assert_eq!((only.filter.as_deref(), only.prioritize.as_deref()), (Some("filter"), Some("rank")));
    assert_eq!((&only.preempt, &only.bind, only.weight), (&None, &None, 2));
    assert!(only.node_cache_capable && only.is_ignorable);
    assert_eq!(
        (&only.managed_resources, &only.ignored_resources),
        (&vec!["example.com/gpu".to_owned()], &only.managed_resources)
    );
}

#[test]
fn scheduler_config_rejects_unknown_fields_with_their_path() {
    for (rest, mistake) in [
        (
            "parallelism: 8",
            "parallelism is not supported; supported fields: apiVersion, kind, profiles, extenders",
        ),
        (
            "extenders: [{urlPrefix: 'ftp://x'}]",
            "extenders[0].urlPrefix cannot be used: write it http://HOST:PORT/PATH or https",
        ),
        (
            "extenders: [{urlPrefix: 'https://x'}]",
            "extenders[0].urlPrefix is https without a CA: set tlsConfig.caFile or tlsConfig.caData, or enableHTTPS to skip verification",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]",
            "extenders[0].weight must be positive, since prioritizeVerb is set",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]",
            "extenders[1].bindVerb is set by more than one extender: only one can bind pods",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', managedResources: [{name: a}, {name: a}]}]",
            "extenders[0].managedResources repeats a",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', httpTimeout: soon}]",
            "extenders[0].httpTimeout is not a duration; write one like 20s, 1m30s or 2h",
        ),
        (
            "extenders: [{urlPrefix: 'https://x', enableHTTPS: true, tlsConfig: {certData: eA==}}]",
            "extenders[0].tlsConfig needs both a certificate and a key",
        ),
        ("profiles: 1", "profiles is no list"),
        ("profiles: [1]", "profiles[0] is no object"),
        ("profiles: [{}, {}]", "profiles[1].schedulerName is used by another profile"),
        ("profiles: [{schedulerName: 1}]", "profiles[0].schedulerName is no name"),
        (
            "profiles: [{pluginConfig: [{name: InterPodAffinity}]}]",
            "profiles[0].pluginConfig[0].name is not NodeResourcesFit: no other plugin can be configured",
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Odd}}}]}]",
            "profiles[0].pluginConfig[0].args.scoringStrategy.type is neither LeastAllocated nor MostAllocated",
        ),
        (
            "profiles: [{plugins: {score: {disabled: [{name: '*'}]}}}]",
            "profiles[0].plugins.score.disabled[0].name is not NodeResourcesFit: no other plugin can be disabled",
        ),
        (
            "profiles: [{plugins: {filter: {}}}]",
            "profiles[0].plugins.filter is not supported; supported fields: score",
        ),
    ] {
        assert_eq!(read(rest), Err(mistake.to_owned()), "{rest}");
    }
    let other = Config::read(b"kind: Pod\napiVersion: v1\n").unwrap_err();
    assert_eq!(
        other,
        ["apiVersion is not kubescheduler.config.k8s.io/v1", "kind is not KubeSchedulerConfiguration"]
    );
}
