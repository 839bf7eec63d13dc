//! The fence: no withdrawal that succeeded is ever followed by an eviction.

use serde_json::{Value, json};

use crate::{
    harness::{Server, join, leave, requester},
    reply::Reply,
};

const JANES: &str = "jane.example.com/a";

/// An Evacuation `e` of jane's without responders, whose eviction is under way.
async fn in_flight(server: &Server) {
    server.evacuation("e", json!({})).await;
    let evicting = |status: &mut Value| {
        status["eviction"] = json!({"attempts": 1, "inFlight": true});
    };
    server.controller().edit_status("e", evicting).await.ok();
}

/// Every way to withdraw.
async fn withdrawals(server: &Server) -> [Reply; 3] {
    let jane = server.user("jane");
    [
        jane.edit("e", |object| leave(object, JANES)).await,
        jane.merge_patch("e", json!({"spec": {"requesters": []}})).await,
        jane.delete("e").await,
    ]
}

#[tokio::test]
async fn the_fence_holds_a_withdrawal_off_while_an_eviction_is_in_flight() {
    let server = Server::start().await;
    in_flight(&server).await;
    for reply in withdrawals(&server).await {
        let refusal = reply.refused(409, "Conflict");
        refusal.cause("EvictionInFlight");
        assert_eq!(refusal.retry_after(), Some(1));
    }
    let kept = server.user("jane").get("evacuations/e").await.ok();
    assert_eq!(kept["metadata"].get("deletionTimestamp"), None);
    assert_eq!(kept["spec"]["requesters"][0]["name"], JANES);
}

#[tokio::test]
async fn the_fence_holds_off_those_with_override_too() {
    let server = Server::start().await;
    in_flight(&server).await;
    server.cluster.grant("root", "override evacuations");
    server.user("root").delete("e").await.refused(409, "Conflict").cause("EvictionInFlight");
}

#[tokio::test]
async fn behind_the_fence_others_can_still_join() {
    let server = Server::start().await;
    in_flight(&server).await;
    let joining = server
        .user("joe")
        .edit("e", |object| {
            join(object, requester("joe.example.com/b", json!({})));
        })
        .await;
    joining.ok();
}

#[tokio::test]
async fn the_fence_opens_when_the_budget_refused() {
    let server = Server::start().await;
    in_flight(&server).await;
    server.controller().edit_status("e", |status| status["eviction"]["inFlight"] = json!(false)).await.ok();
    server.user("jane").edit("e", |object| leave(object, JANES)).await.ok();
}

#[tokio::test]
async fn the_fence_stays_shut_once_the_eviction_was_accepted() {
    let server = Server::start().await;
    in_flight(&server).await;
    let accepted = |status: &mut Value| {
        status["eviction"]["inFlight"] = json!(false);
        status["eviction"]["accepted"] = json!(true);
    };
    server.controller().edit_status("e", accepted).await.ok();
    for reply in withdrawals(&server).await {
        reply.refused(409, "Conflict").cause("EvictionAccepted");
    }
}

#[tokio::test]
async fn the_fence_and_a_withdrawal_exclude_each_other() {
    let server = Server::start().await;
    let stale = server.evacuation("e", json!({})).await;
    server.user("jane").edit("e", |object| leave(object, JANES)).await.ok();
    // The controller decided to evict before it saw the withdrawal.
    let mut evicting = stale.clone();
    evicting["status"]["eviction"] = json!({"attempts": 1, "inFlight": true});
    server.controller().update_status(&evicting).await.refused(409, "Conflict").saying("has been modified");
}
