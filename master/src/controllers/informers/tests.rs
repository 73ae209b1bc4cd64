//! Notifications when a list differs from the known objects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;
use crate::controllers::fields::{Fields, PodFields};

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl EventHandler for Notes {
    fn on_change(&self, change: &Change) {
        let of = |object: &Option<Arc<Object>>| object.as_ref().map_or("-".to_owned(), |o| o.uid.clone());
        let note = format!("{}->{}", of(&change.before), of(&change.now));
        self.0.lock().unwrap().push(note);
    }
}

fn on(node: &str, name: &str, uid: &str) -> Object {
    let fields = Fields::Pod(PodFields { node: node.into(), ..PodFields::default() });
    Object { fields, ..pod(name, uid) }
}

fn pod(name: &str, uid: &str) -> Object {
    Object { namespace: "n".to_owned(), name: name.to_owned(), uid: uid.to_owned(), ..Object::default() }
}

#[test]
fn handlers_receive_each_difference_once() {
    let informers = SharedInformers::default();
    let notes = Arc::new(Notes::default());
    informers.add_handler(notes.clone());
    assert!(informers.register(&Arc::new(Kind::POD)) && !informers.register(&Arc::new(Kind::POD)));
    let told = || std::mem::take(&mut *notes.0.lock().unwrap());
    informers.replace(&Kind::POD, vec![pod("a", "1"), pod("b", "2")]);
    assert_eq!(told(), ["-->1", "-->2"]);
    informers.replace(&Kind::POD, vec![pod("a", "1"), pod("c", "3")]);
    assert_eq!(told(), ["-->3", "2->-"]);
    informers.put(&Kind::POD, pod("a", "4"));
    assert_eq!(told(), ["1->-", "-->4"], "an object made anew is another one");
    informers.remove(&Kind::POD, "n", "a");
    informers.remove(&Kind::POD, "n", "a");
    assert_eq!(told(), ["4->-"]);
    assert_eq!(informers.list(&Kind::POD, "n").len(), 1);
    assert_eq!(informers.list(&Kind::POD, "m").len(), 0);
    assert!(informers.resolve_kind("v1", "Pod").is_ok() && informers.resolve_kind("apps/v1", "Pod").is_err());
    informers.unregister(&Kind::POD);
    assert!(informers.get(&Kind::POD, "n", "c").is_none() && told().is_empty(), "not seeing is not knowing");
}

#[test]
fn a_resource_is_synced_only_while_it_is_connected() {
    let informers = SharedInformers::default();
    assert_eq!(informers.synced_since(&Kind::POD), None);
    informers.register(&Arc::new(Kind::POD));
    assert_eq!(informers.synced_since(&Kind::POD), None, "nothing has been read");
    informers.replace(&Kind::POD, Vec::new());
    assert!(informers.synced_since(&Kind::POD).is_some());
    informers.disconnected(&Kind::POD);
    assert_eq!(informers.synced_since(&Kind::POD), None);
    informers.replace(&Kind::POD, vec![on("one", "a", "1"), pod("b", "2")]);
    assert!(informers.synced_since(&Kind::POD).is_some());
    let names = |node: &str| informers.pods_on(node).iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    assert_eq!((names("one"), names("two")), (vec!["a".to_owned()], vec![]));
}

#[test]
fn pods_are_found_by_their_node_after_every_change() {
    let informers = SharedInformers::default();
    informers.register(&Arc::new(Kind::POD));
    let uids = |node: &str| {
        let mut uids: Vec<String> = informers.pods_on(node).iter().map(|pod| pod.uid.clone()).collect();
        uids.sort();
        uids.concat()
    };
    informers
        .replace(&Kind::POD, vec![on("m", "a", "1"), on("m", "b", "2"), on("n", "c", "3"), on("", "d", "4")]);
    assert_eq!((uids("m"), uids("n"), uids("")), ("12".to_owned(), "3".to_owned(), String::new()));
    informers.put(&Kind::POD, on("n", "d", "4"));
    informers.put(&Kind::POD, on("m", "b", "5"));
    assert_eq!((uids("m"), uids("n")), ("15".to_owned(), "34".to_owned()));
    informers.remove(&Kind::POD, "n", "c");
    informers.remove(&Kind::POD, "n", "d");
    assert_eq!((uids("m"), uids("n")), ("15".to_owned(), String::new()));
    informers.replace(&Kind::POD, vec![on("n", "a", "1")]);
    assert_eq!((uids("m"), uids("n")), (String::new(), "1".to_owned()));
    assert_eq!(informers.lock().caches.values().map(|cache| cache.by_node.len()).sum::<usize>(), 1);
}
