//! Reads of one key and of many.

use machinery_storage::{MAX_KEYS, Operation, Range};

use crate::fixture::{Tested, all, commit, delete, put, revision, shown};

pub(crate) async fn a_missing_key_is_read_with_the_stores_revision(store: Tested) {
    let fresh = store.get("/a/x").await.unwrap();
    assert_eq!(fresh.found, None);
    assert!(fresh.revision > 0, "0 means \"any\" to the readers of an API server");
    let written = commit(&store, [put("/a/y", "1")]).await;
    assert_eq!(store.get("/a/x").await.unwrap().revision, written);
    assert_eq!(store.list(&all("/none/")).await.unwrap().revision, written);
    store.ready().await.unwrap();
}

pub(crate) async fn the_revisions_of_many_keys_are_read_at_one_revision_in_the_order_of_the_keys(
    store: Tested,
) {
    let first = commit(&store, [put("/a/1", "v")]).await;
    let second = commit(&store, [put("/a/2", "v"), put("/a/gone", "v")]).await;
    let newest = commit(&store, [delete("/a/gone")]).await;
    let keys: Vec<String> = ["/a/2", "/a/gone", "/a/1", "/a/", "/a/2"].map(str::to_owned).into();
    let read = store.revisions(&keys).await.unwrap();
    assert_eq!(read.of, [Some(second), None, Some(first), None, Some(second)]);
    assert_eq!(read.revision, newest);
    let read = store.revisions(&keys[..1]).await.unwrap();
    assert_eq!((read.revision, read.of), (newest, vec![Some(second)]));
    let many: Vec<String> = (0..MAX_KEYS).map(|number| format!("/a/{number}")).collect();
    let read = store.revisions(&many).await.unwrap();
    assert_eq!((read.of.len(), read.of[1], read.of[2]), (MAX_KEYS, Some(first), Some(second)));
}

pub(crate) async fn a_list_holds_the_prefix_in_order_and_nothing_else(store: Tested) {
    for key in ["/a/b/2", "/a/c", "/a/b/1", "/a0", "/a.b/1", "/a/b/10", "/b/1", "/a/é"] {
        commit(&store, [put(key, "v")]).await;
    }
    let page = store.list(&all("/a/")).await.unwrap();
    assert_eq!(shown(&page.items), ["/a/b/1=v", "/a/b/10=v", "/a/b/2=v", "/a/c=v", "/a/é=v"]);
    assert_eq!((page.remaining, page.revision), (0, revision(&store).await));
    assert_eq!(store.list(&all("/a/b/")).await.unwrap().items.len(), 3);
    assert_eq!(store.list(&all("/")).await.unwrap().items.len(), 8);
    assert!(store.list(&all("/c/")).await.unwrap().items.is_empty());
}

pub(crate) async fn pages_show_one_revision_while_writes_go_on(store: Tested) {
    for number in 0..10 {
        commit(&store, [put(&format!("/a/{number}"), "old")]).await;
    }
    let first = store.list(&Range { limit: 4, ..all("/a/") }).await.unwrap();
    assert_eq!((first.items.len(), first.remaining), (4, 6));
    let mut seen = shown(&first.items);
    let mut last = first.items.last().unwrap().key.clone();
    loop {
        // Changed, deleted and added, before and after the place where the pages are.
        for operation in [put("/a/1", "new"), put("/a/5", "new"), put("/a/55", "new"), delete("/a/8")] {
            commit(&store, [operation]).await;
        }
        let range =
            Range { limit: 4, after: Some(last.clone()), at_revision: Some(first.revision), ..all("/a/") };
        let page = store.list(&range).await.unwrap();
        assert_eq!(page.revision, first.revision);
        assert_eq!(page.remaining, 10 - seen.len() - page.items.len());
        seen.extend(shown(&page.items));
        last.clone_from(&page.items.last().unwrap().key);
        if page.remaining == 0 {
            break;
        }
    }
    let expected: Vec<_> = (0..10).map(|number| format!("/a/{number}=old")).collect();
    assert_eq!(seen, expected);
}

pub(crate) async fn a_list_of_the_past_shows_what_was_changed_and_deleted_since(store: Tested) {
    commit(&store, [put("/a/kept", "1"), put("/a/gone", "1"), put("/a/changed", "1")]).await;
    let then = commit(&store, [put("/a/changed", "2")]).await;
    commit(&store, [put("/a/changed", "3"), delete("/a/gone"), put("/a/zzz", "1")]).await;
    commit(&store, [put("/a/gone", "again"), put("/a/aaa", "1")]).await;
    let page = store.list(&Range { at_revision: Some(then), ..all("/a/") }).await.unwrap();
    assert_eq!(shown(&page.items), ["/a/changed=2", "/a/gone=1", "/a/kept=1"]);
    assert_eq!(page.items[0].mod_revision, then);
    let now = store.list(&all("/a/")).await.unwrap();
    assert_eq!(shown(&now.items), ["/a/aaa=1", "/a/changed=3", "/a/gone=again", "/a/kept=1", "/a/zzz=1"]);
    let range =
        Range { at_revision: Some(then), after: Some("/a/changed".to_owned()), limit: 1, ..all("/a/") };
    let page = store.list(&range).await.unwrap();
    assert_eq!((shown(&page.items), page.remaining), (vec!["/a/gone=1".to_owned()], 1));
}

pub(crate) async fn ten_thousand_keys_are_listed_whole(store: Tested) {
    let value = "x".repeat(1000);
    for block in 0..100 {
        let operations: Vec<Operation> =
            (0..100).map(|number| put(&format!("/many/{:05}", block * 100 + number), &value)).collect();
        commit(&store, operations).await;
    }
    commit(&store, [put("/many0", "not one of them")]).await;
    let page = store.list(&all("/many/")).await.unwrap();
    assert_eq!((page.items.len(), page.remaining), (10_000, 0));
    for (number, item) in page.items.iter().enumerate() {
        assert_eq!(item.key, format!("/many/{number:05}"));
    }
    let range = Range { limit: 2_500, after: Some("/many/04999".to_owned()), ..all("/many/") };
    let page = store.list(&range).await.unwrap();
    assert_eq!((page.items.len(), page.remaining), (2_500, 2_500));
    assert_eq!(page.items[0].key, "/many/05000");
}

pub(crate) async fn a_page_may_start_after_a_key_that_is_gone(store: Tested) {
    commit(&store, [put("/a/1", "v"), put("/a/3", "v")]).await;
    let after = |key: &str| Range { after: Some(key.to_owned()), ..all("/a/") };
    let cases = [
        ("/a/2", vec!["/a/3=v"]),
        ("/a/1", vec!["/a/3=v"]),
        ("/a/3", vec![]),
        ("/", vec!["/a/1=v", "/a/3=v"]),
    ];
    for (key, expected) in cases {
        assert_eq!(shown(&store.list(&after(key)).await.unwrap().items), expected, "after {key}");
    }
}
