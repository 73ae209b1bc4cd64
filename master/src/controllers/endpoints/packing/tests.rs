//! Distribution of endpoints over slices with few writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Maximum endpoints per slice in these tests.
const MOST: usize = 3;

fn head() -> SliceMetadata {
    let owner = OwnerReference { kind: "Service".into(), uid: "1".into(), ..OwnerReference::default() };
    let labels = [("kubernetes.io/service-name", "web")].into_iter().collect();
    SliceMetadata { name: "web".to_owned(), labels, annotations: None, owner }
}

fn pack(found: Vec<Json>, groups: Vec<Group>) -> Changes {
    super::pack(found.into_iter().map(|slice| Slice::read(slice).unwrap()).collect(), groups, &head(), MOST)
}

fn endpoint(number: u8, ready: bool) -> Value {
    json!({"addresses": [format!("10.0.0.{number}")], "conditions": {"ready": ready}})
}

fn ports(number: u64) -> Vec<Port> {
    match number {
        0 => Vec::new(),
        number => {
            vec![Port {
                name: "http".to_owned(),
                protocol: "TCP".to_owned(),
                number: Some(number),
                app_protocol: None,
            }]
        }
    }
}

fn group(port: u64, endpoints: &[(u8, bool)]) -> Group {
    let endpoints = endpoints.iter().map(|(number, ready)| endpoint(*number, *ready)).collect();
    Group { family: Family::V4, ports: ports(port), endpoints }
}

/// The slices after these changes; a new slice is named by the next number.
fn after(found: &[Json], changes: &Changes) -> Vec<Json> {
    let name = |slice: &Json| slice["metadata"]["name"].as_str().unwrap().parse::<u64>().unwrap();
    let mut next = found.iter().map(name).max().unwrap_or(0);
    let mut slices: Vec<Json> = found.to_vec();
    slices.retain(|slice| changes.delete.iter().all(|gone| name(&gone.json) != name(slice)));
    for update in &changes.update {
        *slices.iter_mut().find(|slice| name(slice) == name(update)).unwrap() = update.clone();
    }
    for new in &changes.create {
        next += 1;
        let mut new = new.as_object().unwrap().clone();
        new["metadata"]["name"] = next.to_string().into();
        slices.push(new);
    }
    slices
}

fn endpoints(slice: &Json) -> &[Value] {
    slice["endpoints"].as_array().unwrap()
}

/// The port and the endpoints of each slice.
fn shape(slices: &[Json]) -> BTreeSet<(u64, Vec<String>)> {
    let ip = |endpoint: &Value| endpoint["addresses"][0].as_str().unwrap().to_owned();
    let port = |slice: &Json| {
        slice["ports"].as_array().unwrap().first().map_or(0, |port| port["port"].as_u64().unwrap())
    };
    slices.iter().map(|slice| (port(slice), endpoints(slice).iter().map(ip).collect())).collect()
}

/// Packs one step after another; checks that each result is stable.
fn settled(steps: &[Vec<Group>]) -> (Vec<Json>, Changes) {
    let (mut slices, mut last) = (Vec::new(), Changes::default());
    for groups in steps {
        last = pack(slices.clone(), groups.clone());
        slices = after(&slices, &last);
        let again = pack(slices.clone(), groups.clone());
        assert_eq!(again, Changes::default(), "what is as it is to be is not written");
    }
    (slices, last)
}

#[test]
fn as_few_slices_as_possible_are_written() {
    let many = |numbers: &[u8]| numbers.iter().map(|number| (*number, true)).collect::<Vec<_>>();
    let five = vec![group(80, &many(&[1, 2, 3, 4, 5]))];
    // Steps, and how many slices the last step creates, updates and deletes.
    for (what, steps, counts) in [
        ("an empty service has a slice", vec![vec![group(0, &[])]], (1, 0, 0)),
        (
            "which its first endpoint takes over",
            vec![vec![group(0, &[])], vec![group(80, &[(1, true)])]],
            (0, 1, 0),
        ),
        ("and its last gives back", vec![vec![group(80, &[(1, true)])], vec![group(0, &[])]], (0, 1, 0)),
        ("five need two slices", vec![five.clone()], (2, 0, 0)),
        (
            "a change is in one",
            vec![five.clone(), vec![group(80, &[(1, true), (2, true), (3, true), (4, false), (5, true)])]],
            (0, 1, 0),
        ),
        ("one more fits", vec![five.clone(), vec![group(80, &many(&[1, 2, 3, 4, 5, 6]))]], (0, 1, 0)),
        ("two more do not", vec![five.clone(), vec![group(80, &many(&[1, 2, 3, 4, 5, 6, 7]))]], (1, 0, 0)),
        (
            "one for another is one write",
            vec![five.clone(), vec![group(80, &many(&[1, 2, 9, 4, 5]))]],
            (0, 1, 0),
        ),
        ("an empty slice goes", vec![five.clone(), vec![group(80, &many(&[1, 2, 3]))]], (0, 0, 1)),
        (
            "other ports are another slice",
            vec![five, vec![group(80, &many(&[1, 2, 3])), group(81, &many(&[4, 5]))]],
            (0, 1, 0),
        ),
    ] {
        let (_, last) = settled(&steps);
        assert_eq!((last.create.len(), last.update.len(), last.delete.len()), counts, "{what}: {last:?}");
    }
}

#[test]
fn changes_of_other_clients_are_repaired() {
    let (slices, _) = settled(&[vec![group(80, &[(1, true), (2, true)])]]);
    let groups = || vec![group(80, &[(1, true), (2, true)])];
    for (path, edit) in [
        ("/metadata/labels", json!({})),
        ("/metadata/ownerReferences", json!([])),
        ("/endpoints", json!([])),
        ("/endpoints/0/conditions/ready", json!(false)),
        ("/endpoints/1/addresses/0", json!("10.9.9.9")),
        ("/ports", json!([])),
        ("/ports/0/port", json!(81)),
    ] {
        let mut wrong = Value::from(slices[0].clone());
        *wrong.pointer_mut(path).unwrap() = edit;
        let wrong = vec![wrong.as_object().unwrap().clone()];
        let changes = pack(wrong.clone(), groups());
        assert_eq!(shape(&after(&wrong, &changes)), shape(&slices), "{path}");
        assert_eq!((changes.create.len(), changes.update.len()), (0, 1), "{path}");
    }
    let mut ending = slices[0].clone();
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(pack(vec![ending], groups()).create.len(), 1, "a terminating slice is not used");
    let odd = json!({"metadata": {"name": "odd"}, "addressType": "FQDN"});
    assert_eq!(pack(vec![odd.as_object().unwrap().clone()], Vec::new()).delete.len(), 1);
}

proptest! {
    #[test]
    fn every_endpoint_is_in_one_slice_and_no_slice_is_too_full(
        steps in prop::collection::vec(prop::collection::btree_map(0_u8..24, (any::<bool>(), 80_u64..82), 0..12), 1..6)
    ) {
        let steps: Vec<Vec<Group>> = steps.iter().map(|step| {
            let of = |port: u64| step.iter().filter(|(_, (_, own))| *own == port).map(|(n, (ready, _))| (*n, *ready)).collect::<Vec<_>>();
            let groups: Vec<Group> = [80, 81].iter().map(|port| group(*port, &of(*port))).filter(|g| !g.endpoints.is_empty()).collect();
            if groups.is_empty() { vec![group(0, &[])] } else { groups }
        }).collect();
        let (slices, _) = settled(&steps);
        let mut wanted: Vec<String> = steps.last().unwrap().iter().flat_map(|group| group.endpoints.iter().map(Value::to_string)).collect();
        let mut told: Vec<String> = slices.iter().flat_map(endpoints).map(Value::to_string).collect();
        wanted.sort();
        told.sort();
        prop_assert_eq!(wanted, told);
        for (_, endpoints) in shape(&slices) {
            prop_assert!(endpoints.len() <= MOST);
        }
    }
}
