//! What can be set, and what is said of what cannot, a line a case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn read(rest: &str) -> Result<Vec<(String, Strategy)>, String> {
    let config = Config::read(format!("{HEAD}{rest}").as_bytes());
    let named = |profile: Profile| (profile.name, profile.strategy);
    config.map(|config| config.profiles.into_iter().map(named).collect()).map_err(|all| all.join("; "))
}

fn profile(rest: &str) -> Result<Vec<(String, Strategy)>, String> {
    read(&format!("profiles: [{{schedulerName: one, {rest}}}]"))
}

#[test]
fn several_schedulers_have_their_names_and_their_ways() {
    let usual = vec![("default-scheduler".to_owned(), Strategy::Least)];
    assert_eq!(read(""), Ok(usual.clone()));
    assert_eq!(read("profiles: [{}]"), Ok(usual));
    let two = read(
        "profiles:\n- {}\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      \
         scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n",
    );
    let packing = ("packing".to_owned(), Strategy::Most);
    assert_eq!(two, Ok(vec![("default-scheduler".to_owned(), Strategy::Least), packing]));
    let none = profile("plugins: {score: {disabled: [{name: NodeResourcesFit}]}}");
    assert_eq!(none, Ok(vec![("one".to_owned(), Strategy::Neither)]));
}

#[test]
fn extenders_are_asked_what_they_have_verbs_for() {
    let text = "extenders:\n- urlPrefix: http://127.0.0.1:8888/scheduler/\n  filterVerb: filter\n  prioritizeVerb: rank\n  \
                weight: 2\n  httpTimeout: 100ms\n  nodeCacheCapable: true\n  ignorable: true\n  managedResources:\n  - {name: \
                example.com/gpu, ignoredByScheduler: true}\n";
    let config = Config::read(format!("{HEAD}{text}").as_bytes()).unwrap();
    let [only] = &*config.extenders else { panic!("{config:?}") };
    assert_eq!(only.caller.url(), "http://127.0.0.1:8888/scheduler");
    assert_eq!((only.filter.as_deref(), only.prioritize.as_deref()), (Some("filter"), Some("rank")));
    assert_eq!((&only.preempt, &only.bind, only.weight), (&None, &None, 2));
    assert!(only.knows_nodes && only.is_ignorable);
    assert_eq!((&only.managed, &only.unheeded), (&vec!["example.com/gpu".to_owned()], &only.managed));
}

#[test]
fn what_is_not_known_is_refused_with_its_place() {
    for (rest, mistake) in [
        ("parallelism: 8", "parallelism cannot be set: know apiVersion, kind, profiles, extenders"),
        (
            "extenders: [{urlPrefix: 'ftp://x'}]",
            "extenders[0].urlPrefix cannot be used: write it http://HOST:PORT/PATH or https",
        ),
        (
            "extenders: [{urlPrefix: 'https://x'}]",
            "extenders[0].urlPrefix is https without an authority: set tlsConfig.caFile or tlsConfig.caData, or enableHTTPS to \
             believe anybody",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]",
            "extenders[0].weight is not positive, and what prioritizeVerb says counts so often",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]",
            "extenders[1].bindVerb is a second one: only one extender gives pods their nodes",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', managedResources: [{name: a}, {name: a}]}]",
            "extenders[0].managedResources names a, as was done before",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', httpTimeout: soon}]",
            "extenders[0].httpTimeout is no duration, write one like 20s, 1m30s or 2h",
        ),
        (
            "extenders: [{urlPrefix: 'https://x', enableHTTPS: true, tlsConfig: {certData: eA==}}]",
            "extenders[0].tlsConfig has a certificate or a key and not the other",
        ),
        ("profiles: 1", "profiles is no list"),
        ("profiles: [1]", "profiles[0] is no object"),
        ("profiles: [{}, {}]", "profiles[1].schedulerName is that of another profile"),
        ("profiles: [{schedulerName: 1}]", "profiles[0].schedulerName is no name"),
        (
            "profiles: [{pluginConfig: [{name: InterPodAffinity}]}]",
            "profiles[0].pluginConfig[0].name is not NodeResourcesFit: nothing else can be set",
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Odd}}}]}]",
            "profiles[0].pluginConfig[0].args.scoringStrategy.type is neither LeastAllocated nor MostAllocated",
        ),
        (
            "profiles: [{plugins: {score: {disabled: [{name: '*'}]}}}]",
            "profiles[0].plugins.score.disabled[0].name is not NodeResourcesFit: nothing else can be left out",
        ),
        ("profiles: [{plugins: {filter: {}}}]", "profiles[0].plugins.filter cannot be set: know score"),
    ] {
        assert_eq!(read(rest), Err(mistake.to_owned()), "{rest}");
    }
    let other = Config::read(b"kind: Pod\napiVersion: v1\n").unwrap_err();
    assert_eq!(
        other,
        ["apiVersion is not kubescheduler.config.k8s.io/v1", "kind is not KubeSchedulerConfiguration"]
    );
}
