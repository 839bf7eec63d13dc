//! Compaction, and revisions that cannot be had.

use machinery_storage::{Range, StoreError};

use crate::fixture::{Tested, all, commit, delete, put, shown, stories, take, watch_error};

pub(crate) async fn a_compacted_revision_cannot_be_read_nor_watched(store: Tested) {
    let old = commit(&store, [put("/a/x", "1")]).await;
    commit(&store, [put("/a/x", "2")]).await;
    commit(&store, [put("/a/x", "3")]).await;
    let newest = commit(&store, [put("/a/x", "4")]).await;
    store.compact(newest).await.unwrap();
    let error = store.list(&Range { at_revision: Some(old), ..all("/a/") }).await.unwrap_err();
    assert!(matches!(error, StoreError::Compacted { requested, .. } if requested == old), "{error:?}");
    let error = watch_error(&store, "/a/", old).await;
    assert!(matches!(error, StoreError::Compacted { requested, .. } if requested == old), "{error:?}");
    assert_eq!(shown(&store.list(&all("/a/")).await.unwrap().items), ["/a/x=4"]);
}

pub(crate) async fn what_is_not_compacted_can_be_read_and_watched(store: Tested) {
    commit(&store, [put("/a/x", "1"), put("/a/y", "1")]).await;
    let kept = commit(&store, [put("/a/x", "2")]).await;
    commit(&store, [delete("/a/x")]).await;
    commit(&store, [put("/a/y", "2")]).await;
    store.compact(kept).await.unwrap();
    let page = store.list(&Range { at_revision: Some(kept), ..all("/a/") }).await.unwrap();
    assert_eq!(shown(&page.items), ["/a/x=2", "/a/y=1"]);
    let mut watch = store.watch("/a/", kept).await.unwrap();
    assert_eq!(stories(&take(&mut watch, 2).await), ["/a/x: 2 -> nothing", "/a/y: 1 -> 2"]);
}

pub(crate) async fn a_revision_of_the_future_is_an_error(store: Tested) {
    let now = commit(&store, [put("/a/x", "1")]).await;
    let error = store.list(&Range { at_revision: Some(now + 1000), ..all("/a/") }).await.unwrap_err();
    assert!(matches!(error, StoreError::Future { requested, .. } if requested == now + 1000), "{error:?}");
    let error = watch_error(&store, "/a/", now + 1000).await;
    assert!(matches!(error, StoreError::Future { requested, .. } if requested == now + 1000), "{error:?}");
}

pub(crate) async fn compacting_twice_or_the_future_is_an_error(store: Tested) {
    commit(&store, [put("/a/x", "1")]).await;
    let now = commit(&store, [put("/a/x", "2")]).await;
    store.compact(now).await.unwrap();
    let error = store.compact(now).await.unwrap_err();
    assert!(matches!(error, StoreError::Compacted { .. }), "{error:?}");
    let error = store.compact(now + 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Future { .. }), "{error:?}");
}
