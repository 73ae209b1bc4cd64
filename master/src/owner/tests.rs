//! Which masters may use a store, and errors for masters with other keys.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::storage::Memory;

use super::*;

fn mark(root: &str, key: &str) -> Mark {
    Mark { root_authority: root.to_owned(), service_account_key: key.to_owned(), retiring_authority: None }
}

#[test]
fn store_of_another_cluster_is_rejected_if_shared_and_warned_about_if_not() {
    use OwnerCheck::{Note, NoteAndWarn, Own, Refuse};
    let own = mark("r", "k");
    for (noted, kept, is_late, expected) in [
        (None, Kept::Alone, false, Note),
        (None, Kept::Shared, false, Note),
        (None, Kept::Alone, true, NoteAndWarn("root authority or key of service accounts")),
        (Some(mark("r", "k")), Kept::Alone, false, Own),
        (Some(mark("r", "k")), Kept::Shared, false, Own),
        (Some(mark("x", "k")), Kept::Shared, false, Refuse("root authority")),
        (Some(mark("r", "x")), Kept::Shared, true, Refuse("key of service accounts")),
        (Some(mark("x", "x")), Kept::Shared, true, Refuse("root authority and key of service accounts")),
        (Some(mark("x", "k")), Kept::Alone, true, NoteAndWarn("root authority")),
        (Some(mark("r", "x")), Kept::Alone, false, NoteAndWarn("key of service accounts")),
    ] {
        assert_eq!(judge(noted.as_ref(), &own, kept, is_late), expected, "{noted:?} {kept:?} {is_late}");
    }
}

#[test]
fn a_rotated_ca_updates_the_owner_mark_of_the_store() {
    let own = Mark { retiring_authority: Some("old".to_owned()), ..mark("new", "k") };
    for (noted, expected) in [
        (mark("old", "k"), OwnerCheck::Note),
        (mark("new", "k"), OwnerCheck::Own),
        (mark("old", "x"), OwnerCheck::Refuse("root authority and key of service accounts")),
        (mark("older", "k"), OwnerCheck::Refuse("root authority")),
    ] {
        assert_eq!(judge(Some(&noted), &own, Kept::Shared, false), expected, "{noted:?}");
    }
    // A master that missed a CA rotation must not overwrite the mark.
    assert_eq!(
        judge(Some(&mark("new", "k")), &mark("old", "k"), Kept::Shared, false),
        OwnerCheck::Refuse("root authority")
    );
}

#[tokio::test]
async fn first_master_writes_the_owner_mark_and_others_must_match_it() {
    let store = Memory::default();
    let pki = Path::new("/m/pki");
    let (one, two) = (mark("r", "k"), mark("x", "k"));
    claim(&store, &one, Kept::Shared, true, pki).await.unwrap();
    let revision = store.revision().await.unwrap();
    claim(&store, &one, Kept::Shared, false, pki).await.unwrap();
    let refused = claim(&store, &two, Kept::Shared, true, pki).await.unwrap_err().to_string();
    assert_eq!(store.revision().await.unwrap(), revision, "neither is written again");
    for words in ["another root authority;", "to /m/pki", "etcdctl del /coracle/authority"] {
        assert!(refused.contains(words), "{words} is not in {refused}");
    }
    // A store that only one master uses takes over the mark of that master.
    claim(&store, &two, Kept::Alone, true, pki).await.unwrap();
    claim(&store, &two, Kept::Shared, false, pki).await.unwrap();
    assert!(claim(&store, &one, Kept::Shared, false, pki).await.is_err());
}
