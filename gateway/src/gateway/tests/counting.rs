//! Deletions that count against budgets.

use super::*;

/// The caller of counted deletions.
const REPLICA_SET: &str = "system:serviceaccount:kube-system:replicaset-controller";

/// Returns an API with a namespace whose deletions count, and a ready pod whose ReplicaSet wants so many.
fn counting(wanted: i32) -> PlayedApi {
    let mut owned = pod("1", false);
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "r", "controller": true}]);
    owned["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let counts =
        json!({"metadata": {"name": "shop", "labels": {"gateway.evacuation.dev/count": "deletions"}}});
    let set = json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "r"},
        "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": "db"}}},
    });
    let pods = json!({"metadata": {"resourceVersion": "5"}, "items": [owned]});
    let others = HashMap::from([
        ("/apis/apps/v1/namespaces/shop/replicasets/db", set),
        ("/api/v1/namespaces/shop/pods", pods),
    ]);
    let (listed, live) = (owned.clone(), owned);
    PlayedApi { listed, live, namespaces: vec![counts], others, ..PlayedApi::default() }
}

/// Returns the Evacuation of the pod, with which every responder is done.
fn done() -> Value {
    json!({
        "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e", "resourceVersion": "3"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": []},
        "status": {"responders": []},
    })
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_budget_holds_passes_when_the_owner_no_longer_wants_the_pod() {
    for (wanted, passes) in [(0, true), (1, false)] {
        let (gateway, api) = gateway(counting(wanted)).await;
        let call = call_of(REPLICA_SET, Operation::Delete);
        // A budget with room counts it.
        api.eviction.store(201, Ordering::Relaxed);
        assert_eq!(gateway.answer(&call, None).await, Answer::Pass(Pass::Counted));
        api.eviction.store(429, Ordering::Relaxed);
        for call in [Call { dry_run: true, ..call.clone() }, call] {
            let answer = gateway.answer(&call, None).await;
            assert_eq!(answer == Answer::Pass(Pass::Surplus), passes, "{wanted} {call:?}: {answer:?}");
        }
        assert_eq!(api.asked.lock().unwrap().is_none(), passes, "nobody is asked for a surplus pod");
        let counted = format!(r#"verdict="surplus"}} {}"#, if passes { 2 } else { 0 });
        assert_eq!(gateway.metrics.text().contains(&counted), passes, "{}", gateway.metrics.text());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_for_a_budget_passes_once_it_is_surplus() {
    for (wanted, live, eviction, pass) in [
        (0, done(), 429, Some(Pass::Surplus)),
        (1, done(), 429, None),
        // It was canceled since, so the budget decides again: it denies the deletion, or has room by now.
        (0, Value::Null, 429, Some(Pass::Surplus)),
        (0, Value::Null, 201, Some(Pass::Counted)),
    ] {
        let api = PlayedApi { evacuations: vec![done()], ..counting(wanted) };
        let (gateway, api) = gateway(api).await;
        api.eviction.store(eviction, Ordering::Relaxed);
        *api.live_evacuation.lock().unwrap() = live.clone();
        let shown = Some(Shown { uid: "1", resource_version: "1" });
        let answer = gateway.answer(&call_of(REPLICA_SET, Operation::Delete), shown).await;
        let passed = if let Answer::Pass(pass) = answer { Some(pass) } else { None };
        assert_eq!(passed, pass, "{wanted} {live} {eviction}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_eviction_api_fails_to_count_waits_as_long_as_an_outage_lets_an_answer_hold() {
    let (gateway, api) = gateway(counting(1)).await;
    let call = call_of(REPLICA_SET, Operation::Delete);
    let dry_run = Call { dry_run: true, ..call.clone() };
    // A webhook of others on evictions hangs, fails, or meets other writers, for ever.
    for code in [0, 500, 409] {
        api.eviction.store(code, Ordering::Relaxed);
        for _ in 0..5 {
            let answer = gateway.answer(&call, None).await;
            assert!(matches!(answer, Answer::Wait(_)), "{code}: {answer:?}");
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    }
    assert!(matches!(gateway.answer(&dry_run, None).await, Answer::Wait(_)));
    assert_eq!(gateway.answer(&call, None).await, Answer::Pass(Pass::Uncounted));

    // An eviction API that counts another deletion of the namespace was busy. One that fails still fails.
    gateway.limiter.counted("shop");
    assert!(matches!(gateway.answer(&call, None).await, Answer::Wait(_)));
    api.eviction.store(500, Ordering::Relaxed);
    assert_eq!(gateway.answer(&call, None).await, Answer::Pass(Pass::Uncounted));
    api.eviction.store(409, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(gateway.answer(&call, None).await, Answer::Pass(Pass::Uncounted));

    // A budget that holds the deletion is asked about by an Evacuation.
    api.eviction.store(429, Ordering::Relaxed);
    assert!(matches!(gateway.answer(&call, None).await, Answer::Wait(_)));
    assert!(api.asked.lock().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_a_deletion_keeps_to_its_budget_by_its_record_and_passes_without_one() {
    for (evacuations, passes) in [(vec![], true), (vec![done()], false)] {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let outages = Arc::new(Outages::since(began));
        let api = PlayedApi { evacuations, rejects: AtomicUsize::new(503), ..counting(1) };
        let (gateway, api) = gateway_in(api, Arc::clone(&outages)).await;
        for _ in 0..3 {
            outages.probed(None, Instant::now());
        }
        assert!(gateway.is_api_away());
        let call = call_of(REPLICA_SET, Operation::Delete);
        api.eviction.store(201, Ordering::Relaxed);
        assert_eq!(gateway.answer(&call, None).await, Answer::Pass(Pass::Counted));
        api.eviction.store(429, Ordering::Relaxed);
        let answer = gateway.answer(&call, None).await;
        assert_eq!(answer == Answer::Unasked(Unasked::ApiDown), passes, "{answer:?}");
        assert_eq!(matches!(answer, Answer::Wait(_)), !passes, "{answer:?}");
    }
}

/// # Attack
///
/// - Attacker: a tenant whose owners are slow to read
/// - Act: takes every slot of a workload controller, which deletes pods of all namespaces
/// - Promise: 8
#[tokio::test(start_paused = true)]
async fn deletions_that_wait_to_be_read_as_surplus_take_no_slot_of_their_controller() {
    let mut api = counting(1);
    api.slow = Some("/apis/apps/v1/namespaces/shop/replicasets/db");
    let (gateway, api) = gateway(api).await;
    api.eviction.store(429, Ordering::Relaxed);
    let calls = (0..SHARE).map(|_| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.answer(&call_of(REPLICA_SET, Operation::Delete), None).await })
    });
    let calls: Vec<_> = calls.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let slot = gateway.limiter.slot(REPLICA_SET, Duration::from_millis(10)).await;
    assert!(slot.is_ok() && !gateway.limiter.is_crowded(REPLICA_SET), "{slot:?}");
    for call in calls {
        assert!(!call.is_finished(), "it waits for its owner to be read");
        call.abort();
    }
}
