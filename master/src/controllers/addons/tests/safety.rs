//! Tests of what is never deleted: objects of files that cannot be read, of other users, and of other masters.

use client::Kind;
use serde_json::{Value, json};

use super::passes::{Bed, create_directory};
use super::*;

/// A master that has applied `a` and `b` from a file each, and `c` from another one.
async fn applied() -> Bed {
    let mut bed = Bed::new().await;
    for name in ["a", "b", "c"] {
        bed.write(&format!("{name}.yaml"), &config_map(name));
    }
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    bed
}

#[tokio::test]
async fn a_namespace_that_is_added_to_a_manifest_keeps_the_object() {
    let mut bed = applied().await;
    let uid = bed.get("a").await["metadata"]["uid"].clone();
    bed.write("a.yaml", &config_map("a").replace("name: a", "name: a, namespace: default"));
    bed.settle().await;
    bed.settle().await;
    assert_eq!(bed.get("a").await["metadata"]["uid"], uid);
}

#[tokio::test]
async fn empty_broken_and_unreadable_files_prune_nothing() {
    let mut bed = applied().await;
    for broken in ["", "# nothing\n", "apiVersion: v1\nkind: Conf", "a: {", "\u{0}"] {
        bed.write("a.yaml", broken);
        bed.settle().await;
        bed.settle().await;
        assert_eq!(bed.config_maps().await, ["a", "b", "c"], "{broken:?}");
        assert!(bed.reports().contains("a.yaml: "), "{broken:?}: {}", bed.reports());
        assert!(bed.reports().contains("1 object without a manifest remains"), "{}", bed.reports());
    }
    // Another file waits, too: its object may be in the file that cannot be read.
    fs::remove_file(bed.path("b.yaml")).unwrap();
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    bed.write("a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["c"]);
    assert_eq!(bed.reports(), "");
}

#[tokio::test]
async fn missing_empty_and_foreign_directories_prune_nothing() {
    let mut bed = applied().await;
    let (directory, moved) = (bed.path(""), bed.folder.path().join("moved"));
    fs::rename(&directory, &moved).unwrap();
    bed.settle().await;
    assert!(bed.reports().contains("No such file or directory"), "{}", bed.reports());
    create_directory(&directory);
    bed.settle().await;
    assert!(bed.reports().contains("3 objects without a manifest remain, because the directory is empty"));
    bed.restart();
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    // Other files lie where a file system is not mounted.
    bed.write("d.yaml", &config_map("d"));
    bed.settle().await;
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c", "d"]);
    fs::remove_dir_all(&directory).unwrap();
    fs::rename(&moved, &directory).unwrap();
    bed.settle().await;
    fs::remove_file(bed.path("c.yaml")).unwrap();
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "d"], "the directory is back, and is followed again");
}

#[tokio::test]
async fn renamed_files_and_files_that_an_editor_replaces_keep_their_objects() {
    let mut bed = applied().await;
    let uid = bed.get("a").await["metadata"]["uid"].clone();
    fs::rename(bed.path("a.yaml"), bed.path("z.yaml")).unwrap();
    bed.settle().await;
    bed.settle().await;
    fs::remove_file(bed.path("z.yaml")).unwrap();
    bed.pass_after(Duration::ZERO).await;
    bed.pass_after(CONFIRM / 2).await;
    bed.write("z.yaml", &config_map("a"));
    bed.settle().await;
    assert_eq!(bed.get("a").await["metadata"]["uid"], uid);
    // A file that is written slowly is not confirmed.
    bed.write("b.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    for number in 0..9 {
        bed.write("c.yaml", &format!("# {number}\n{}", config_map("c")));
        bed.pass_after(CONFIRM).await;
    }
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn replaced_and_released_objects_remain() {
    let mut bed = applied().await;
    // A user deletes `a` and creates another one. `b` is taken over by another field manager.
    bed.client.delete(&Kind::CONFIG_MAP, "default", "a", &client::DeleteOptions::default()).await.unwrap();
    let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    bed.client.create(&Kind::CONFIG_MAP, "default", new).await.unwrap();
    let released = json!({"metadata": {"managedFields": [{}]}});
    bed.client.patch(&Kind::CONFIG_MAP, "default", "b", released).await.unwrap();
    for name in ["a.yaml", "b.yaml"] {
        fs::remove_file(bed.path(name)).unwrap();
    }
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    let inventory = bed.addons.stored.as_ref().unwrap();
    assert_eq!(inventory.objects.len(), 1, "both are no objects of the add-ons any more");
}

#[tokio::test]
async fn an_annotation_permits_the_deletion_of_a_namespace_later() {
    let mut bed = applied().await;
    bed.write("a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    bed.settle().await;
    fs::remove_file(bed.path("a.yaml")).unwrap();
    bed.settle().await;
    assert!(bed.reports().contains("Namespace shop of a.yaml: remains: "), "{}", bed.reports());
    let metadata = async |bed: &Bed| {
        let found = bed.client.find(&Kind::NAMESPACE, "", "shop").await.unwrap();
        found.map(|found| found["metadata"].clone())
    };
    assert_eq!(metadata(&bed).await.unwrap()["deletionTimestamp"], Value::Null);
    let permit = json!({"metadata": {"annotations": {prune::ANNOTATION: "true"}}});
    bed.client.patch(&Kind::NAMESPACE, "", "shop", permit).await.unwrap();
    bed.pass_after(RESYNC).await;
    assert!(metadata(&bed).await.is_none_or(|metadata| metadata["deletionTimestamp"].is_string()));
    assert_eq!(bed.reports(), "");
}

#[tokio::test]
async fn masters_with_different_directories_delete_no_objects_of_each_other() {
    let mut one = applied().await;
    let mut two = Bed::beside(one.client.clone(), "two");
    two.write("c.yaml", &config_map("c"));
    two.write("d.yaml", &config_map("d"));
    // They take turns.
    for _ in 0..2 {
        two.restart();
        two.settle().await;
        let text = "the directory differs from that of one in a.yaml, b.yaml, d.yaml";
        let mut messages = Vec::new();
        let each = |event: client::Json| messages.push(format!("{event:?}"));
        two.client.list(&Kind::EVENT, "kube-system", each).await.unwrap();
        assert!(messages.iter().any(|message| message.contains(text)), "{messages:?}");
        one.restart();
        one.settle().await;
        assert_eq!(one.config_maps().await, ["a", "b", "c", "d"]);
    }
    // A file that was removed here while the other master held the lease, which still has it.
    two.restart();
    two.write("a.yaml", &config_map("a"));
    two.settle().await;
    fs::remove_file(one.path("a.yaml")).unwrap();
    one.restart();
    one.settle().await;
    assert_eq!(one.config_maps().await, ["a", "b", "c", "d"]);
    // A file that is removed while this master holds the lease.
    fs::remove_file(one.path("b.yaml")).unwrap();
    one.settle().await;
    assert_eq!(one.config_maps().await, ["a", "c", "d"]);
}

#[tokio::test]
async fn the_config_map_of_the_add_ons_deletes_nothing() {
    let mut bed = applied().await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim"}});
    bed.client.create(&Kind::CONFIG_MAP, "default", other).await.unwrap();
    let entry = r#"{"a.yaml": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "victim"}]}"#;
    let forged = json!({"data": {"inventory.json": entry, "files.json": entry, "holder": "one"}});
    bed.client.patch(&Kind::CONFIG_MAP, "kube-system", NAME, forged).await.unwrap();
    bed.restart();
    bed.settle().await;
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c", "victim"]);
}

#[tokio::test]
async fn a_manifest_that_is_not_applied_keeps_the_objects_without_a_manifest() {
    let mut bed = applied().await;
    let typo = config_map("a").replace("kind: ConfigMap", "kind: ConfigMab");
    let rejected = config_map("a2").replace("data: {a: b}", "data: 5");
    for text in [typo, rejected] {
        bed.write("a.yaml", &text);
        bed.settle().await;
        bed.pass_after(RESYNC).await;
        assert_eq!(bed.config_maps().await, ["a", "b", "c"], "{text}");
        let expected = "1 object without a manifest remains, because not every manifest is applied";
        assert!(bed.reports().contains(expected), "{}", bed.reports());
    }
    bed.write("a.yaml", &config_map("a2"));
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a2", "b", "c"]);
}

#[tokio::test]
async fn an_object_of_a_user_remains_after_its_manifest_is_removed() {
    let mut bed = Bed::new().await;
    let create = async |bed: &Bed, name: &str| {
        let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        bed.client.create(&Kind::CONFIG_MAP, "default", new).await.unwrap();
    };
    create(&bed, "a").await;
    for name in ["a", "b", "c"] {
        bed.write(&format!("{name}.yaml"), &config_map(name));
    }
    bed.settle().await;
    assert_eq!(bed.get("a").await["data"]["a"], "b");
    // The object shows its origin, too. A user's object with the name of an object of the add-ons is adopted.
    fs::remove_file(inventory::path(bed.folder.path())).unwrap();
    bed.restart();
    bed.client.delete(&Kind::CONFIG_MAP, "default", "b", &client::DeleteOptions::default()).await.unwrap();
    create(&bed, "b").await;
    bed.settle().await;
    for name in ["a.yaml", "b.yaml"] {
        fs::remove_file(bed.path(name)).unwrap();
    }
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    assert!(bed.reports().contains("remains: it existed before"), "{}", bed.reports());
}

#[tokio::test]
async fn a_namespace_is_deleted_after_the_objects_in_it() {
    let mut bed = applied().await;
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {addons.coracle.io/prune: 'true'}}\n";
    let inside = config_map("d").replace("name: d", "name: d, namespace: shop");
    bed.write("a.yaml", shop);
    bed.write("b.yaml", &inside);
    bed.settle().await;
    let is_deleted = async |bed: &Bed| {
        let found = bed.client.find(&Kind::NAMESPACE, "", "shop").await.unwrap();
        found.is_none_or(|found| found["metadata"]["deletionTimestamp"].is_string())
    };
    fs::remove_file(bed.path("a.yaml")).unwrap();
    bed.settle().await;
    bed.pass_after(RESYNC).await;
    assert!(!is_deleted(&bed).await, "a manifest names an object in it");
    fs::remove_file(bed.path("b.yaml")).unwrap();
    bed.settle().await;
    assert!(!is_deleted(&bed).await && bed.names(&Kind::CONFIG_MAP, "shop").await.is_empty());
    bed.pass_after(RESYNC).await;
    assert!(is_deleted(&bed).await);
}

#[tokio::test]
async fn a_takeover_prunes_nothing_if_the_files_of_the_previous_holder_are_unknown() {
    // The other master has a broken file, so its files are never confirmed, but it applies `b`.
    let mut one = applied().await;
    let mut two = Bed::beside(one.client.clone(), "two");
    two.write("b.yaml", &config_map("b"));
    two.write("z.yaml", "a: {");
    two.settle().await;
    fs::remove_file(one.path("b.yaml")).unwrap();
    one.restart();
    one.settle().await;
    assert_eq!(one.config_maps().await, ["a", "b", "c"]);
    assert!(one.addons.stored.as_ref().unwrap().objects.len() == 2);
    // The ConfigMap is deleted. The holder creates it again, and prunes nothing that left before.
    one.restart();
    let none = client::DeleteOptions::default();
    one.client.delete(&Kind::CONFIG_MAP, "kube-system", NAME, &none).await.unwrap();
    fs::remove_file(one.path("a.yaml")).unwrap();
    one.settle().await;
    assert_eq!(one.config_maps().await, ["a", "b", "c"]);
    one.client.get(&Kind::CONFIG_MAP, "kube-system", NAME).await.unwrap();
}
