//! Scaling, also in the middle of a rollout.

use super::*;

#[test]
fn the_only_replica_set_with_pods_is_scaled() {
    let deployment = |replicas: i64| deployment(&[("/spec/replicas", json!(replicas))]);
    let (old, new) = (set("old", 1, 0, 0), set("new", 2, 10, 10));
    assert_eq!(short(&planned(&deployment(4), &[&old, &new], &[])), ["new=4"]);
    assert_eq!(short(&planned(&deployment(0), &[&old, &new], &[])), ["new=0"]);
    // The ReplicaSet has the size already, but does not record it.
    let scaled = sized("new", 2, 12, 12, 10, 13);
    assert_eq!(short(&planned(&deployment(12), &[&old, &scaled], &[])), ["new"]);
}

#[test]
fn old_replica_sets_lose_their_pods_when_the_new_one_is_complete() {
    let deployment = deployment(&[("/spec/paused", json!(true))]);
    let (old, new) = (set("old", 1, 2, 2), set("new", 2, 10, 10));
    assert_eq!(short(&planned(&deployment, &[&old, &new], &[])), ["old=0"]);
}

/// The tables are by hand: each size times the new maximum, divided by the old one.
#[test]
fn a_rollout_is_scaled_in_proportion() {
    for (replicas, sizes, expected) in [
        // 13 pods become 33: 8 * 33 / 13 = 20.3 and 5 * 33 / 13 = 12.7.
        (30, [8, 5], vec!["old=20", "new=13"]),
        // 13 pods become 8: 8 * 8 / 13 = 4.9 and 5 * 8 / 13 = 3.1.
        (5, [8, 5], vec!["old=5", "new=3"]),
        // 0 pods need no surge.
        (0, [8, 5], vec!["old=0", "new=0"]),
        // Two more: 12 * 15 / 13 = 13.8, and nothing is left for the other.
        (12, [12, 1], vec!["old=14", "new=1"]),
    ] {
        let deployment = deployment(&[("/spec/replicas", json!(replicas))]);
        let [old, new] = sizes;
        let (old, new) = (set("old", 1, old, old), set("new", 2, new, 0));
        let plan = planned(&deployment, &[&old, &new], &[]);
        let writes: Vec<String> = short(&plan)
            .into_iter()
            .map(|write| if write == "new" { "new=1".to_owned() } else { write })
            .collect();
        assert_eq!(writes, expected, "{replicas}");
        for write in &plan.writes {
            let Write::Change(change) = write else { panic!("{write:?}") };
            let desired = change.annotations.get("deployment.kubernetes.io/desired-replicas");
            assert_eq!(desired.map(|value| &**value), Some(replicas.to_string().as_str()));
        }
    }
}

#[test]
fn of_equal_replica_sets_the_newer_grows_and_the_older_shrinks_first() {
    // 10 pods become 13: 5 * 13 / 10 = 6.5 rounds to 7 for the newer, and 1 is left for the older.
    let (old, new) = (sized("old", 1, 5, 5, 7, 10), sized("new", 2, 5, 5, 7, 10));
    let grown = planned(&deployment(&[]), &[&old, &new], &[]);
    assert_eq!(short(&grown), ["old=6", "new=7"]);
    let shrunk = planned(&deployment(&[("/spec/replicas", json!(4))]), &[&old, &new], &[]);
    // 10 pods become 7: 5 * 7 / 10 = 3.5 rounds to 4, so each loses 1, and the rest of 1 is taken from the older.
    assert_eq!(short(&shrunk), ["old=3", "new=4"]);
}

/// The strategy changed in the middle of a rolling update. Stock controllers make no progress then.
#[test]
fn a_recreation_with_several_sizes_goes_on() {
    let changes = [("/spec/strategy", json!({"type": "Recreate"})), ("/spec/replicas", json!(6))];
    let (old, new) = (set("old", 1, 5, 5), set("new", 2, 3, 3));
    assert_eq!(short(&planned(&deployment(&changes), &[&old, &new], &[])), ["old=0"]);
}
