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
fn what_is_not_known_is_refused_with_its_place() {
    for (rest, mistake) in [
        (
            "extenders: [{urlPrefix: 'http://127.0.0.1'}]",
            "extenders cannot be set: know apiVersion, kind, profiles",
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
