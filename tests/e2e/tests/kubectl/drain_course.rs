//! Drains between their creation and their end: seen, joined, paused and canceled from the command line.

use evacuation_api::NodeEvacuation;
use evacuation_client::{Answer, End};
use evacuation_e2e::PodSpec;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    desk::{Desk, assert_has},
    drain::{cordoned, evacuate, own_node},
};

/// The drains of a node.
pub(crate) async fn drains_of(desk: &Desk, node: &str) -> Vec<String> {
    let api: Api<NodeEvacuation> = Api::all(desk.admin());
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let of_node = all.iter().filter(|drain| drain.spec.nodes.names == [node]);
    of_node.map(ResourceExt::name_any).collect()
}

/// A pod on that node whose app is asked.
async fn asked_pod(desk: &Desk, node: &str) -> Pod {
    desk.pods.create("db-0", &PodSpec::watching().on(node)).await.unwrap()
}

/// Runs kubectl, which must succeed.
async fn kubectl(desk: &Desk, arguments: &[&str]) -> String {
    let output = desk.platform().kubectl(arguments).await.unwrap();
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_returns_to_the_drain_in_progress() {
    let desk = Desk::new("drainagain").await;
    let node = own_node(&desk).await;
    asked_pod(&desk, &node).await;
    let output = evacuate(&desk, &node, &["--force", "--detach"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let said: Vec<&str> = output.stdout.lines().collect();
    let [created, see, undo] = said.as_slice() else { panic!("{output:?}") };
    assert_has(created, &["nodeevacuation.evacuation.dev/", " created"]);
    assert_has(see, &["to see it: kubectl evacuate status "]);
    assert_has(undo, &["to undo it: kubectl evacuate cancel "]);
    let first = drains_of(&desk, &node).await;
    assert_eq!(first.len(), 1);

    let output = evacuate(&desk, &format!("node/{node}"), &["--force", "--detach"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stdout, &[&format!("node drain {} is in progress since ", first[0])]);
    assert!(!output.stderr.contains("other flags"), "{output:?}");
    let output = evacuate(&desk, &node, &["--force", "--on-refusal=wait", "--timeout=1s"]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_has(&output.stderr, &["was created with other flags"]);
    assert_eq!(drains_of(&desk, &node).await, first);
    desk.cancel(&node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_takes_requests_back_and_uncordons_and_reports_it() {
    let desk = Desk::new("draincancel").await;
    let node = own_node(&desk).await;
    let pod = asked_pod(&desk, &node).await;
    let _app = desk.answers(&pod, Answer::delay(std::time::Duration::from_mins(10))).await;
    let output = evacuate(&desk, &node, &["--force", "--timeout=15s"]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    let name = drains_of(&desk, &node).await.remove(0);
    let next = format!("), {}/db-0 asked for a delay. Nothing to do.", desk.namespace());
    let slow = controlplane::eventually(crate::watch::PATIENCE, "the next step is named", || async {
        let page = kubectl(&desk, &["evacuate", "status", &name]).await;
        let parts = ["Slow, 0/1 gone. Next: ", "(in ", next.as_str()];
        if parts.iter().all(|part| page.contains(part)) { Ok(()) } else { Err(page) }
    });
    slow.await.unwrap();

    let said = desk.cancel(&node).await;
    let expected = format!("nodeevacuation {name} canceled: 1 request taken back, node/{node} uncordoned");
    assert_eq!(said.trim(), expected);
    assert!(!cordoned(&desk, &node).await);
    assert!(matches!(End::of(&desk.evacuation_of("db-0").await), Some(End::Failed { .. })));
    assert_eq!(drains_of(&desk, &node).await, [] as [&str; 0]);

    let output = desk.platform().kubectl(&["evacuate", "cancel", &node]).await.unwrap();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &[&node]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_says_who_keeps_the_node_cordoned() {
    let desk = Desk::new("drainkept").await;
    let node = own_node(&desk).await;
    let (first, second) = (format!("{node}-first"), format!("{node}-second"));
    for name in [&first, &second] {
        let output = evacuate(&desk, &node, &["--name", name, "--timeout=60s"]).await;
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    let said = kubectl(&desk, &["evacuate", "cancel", &first]).await;
    assert_has(&said, &[&format!("node/{node} still cordoned (needed by {second})")]);
    kubectl(&desk, &["evacuate", "cancel", &second]).await;
    desk.cordon(&node, true).await;
    evacuate(&desk, &node, &["--timeout=60s"]).await;
    let said = desk.cancel(&node).await;
    assert_has(&said, &[&format!("node/{node} still cordoned (cordoned by someone else)")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_what_would_happen_and_changes_nothing() {
    let desk = Desk::new("drainplan").await;
    let node = own_node(&desk).await;
    desk.pods.create("web-0", &PodSpec::default().label("app", "web").on(&node)).await.unwrap();
    desk.floor("web", ("app", "web"), 1).await;
    let output = evacuate(&desk, &node, &["--plan"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &["web-0", "no controller creates it again", "--force"]);

    let held = controlplane::eventually(crate::watch::PATIENCE, "the budget is in the plan", || async {
        let output = evacuate(&desk, &node, &["--plan", "--force"]).await;
        if output.stdout.contains("BudgetAllowsNone") { Ok(output) } else { Err(format!("{output:?}")) }
    });
    let held = held.await.unwrap();
    assert_eq!(held.code, Some(0), "{held:?}");
    let plan = evacuate(&desk, &node, &["--plan", "--force", "-o", "json"]).await;
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!((&plan["begins"], &plan["pods"][0]["act"]), (&json!(true), &json!("Ask")), "{plan}");
    assert_eq!(plan["heldBackNow"][0]["reason"], "BudgetAllowsNone", "{plan}");
    let names = evacuate(&desk, &node, &["--plan", "--force", "-o", "name"]).await;
    assert_eq!(names.stdout.trim(), format!("pod/{}/web-0", desk.namespace()));
    let pod = format!("pod/{}/web-0 would be asked", desk.namespace());
    assert_has(&held.stdout, &[&format!("node/{node} would be cordoned"), &pod, "would be held back"]);
    let wide = evacuate(&desk, &node, &["--plan", "--force", "-o", "wide"]).await;
    let number = format!("node/{node} would be cordoned, and 1 pod would go");
    assert_has(&wide.stdout, &[&number, &format!("web-0 on {node} would be asked")]);
    assert!(!cordoned(&desk, &node).await);
    assert_eq!(drains_of(&desk, &node).await, [] as [&str; 0]);
    assert_eq!(desk.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_why_show_what_blocks() {
    let desk = Desk::new("drainstuck").await;
    let node = own_node(&desk).await;
    let pod = asked_pod(&desk, &node).await;
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    let draining = desk.start_in_cluster(&["evacuate", "node", &node, "--force", "--on-refusal=wait"]);
    draining.wait_for_log(crate::watch::PATIENCE, ": Stuck, 0/1 gone").await.unwrap();
    let name = drains_of(&desk, &node).await.remove(0);
    let blocker = format!("pod/{}/db-0: Refused since ", desk.namespace());
    draining.wait_for_log(crate::watch::PATIENCE, "what helps: ").await.unwrap();
    assert_has(&draining.log().unwrap(), &[&blocker, "a backup runs"]);

    let table = kubectl(&desk, &["evacuate", "status"]).await;
    let row = table.lines().find(|line| line.starts_with(&name)).unwrap();
    assert_has(row, &[&node, "Stuck", "0/1"]);
    let page = kubectl(&desk, &["evacuate", "status", &name]).await;
    let statement = "Verdict:     Stuck, 0/1 gone. 1 pod needs a change, named below.";
    assert_has(&page, &[statement, &blocker, "a backup runs", "what helps: "]);
    assert_eq!(page.matches("/db-0").count(), 1, "each pod once: {page}");

    let why = desk.kubectl(&["evacuate", "why", "pod/db-0"]).await;
    assert_has(
        &why,
        &[
            &format!("as drain.evacuation.dev/{name}-"),
            "admin at ",
            "self answered Refuse at ",
            "a backup runs",
            "What helps: the responder must change its answer",
        ],
    );
    let watching = desk.start_in_cluster(&["evacuate", "status", &name, "--watch"]);
    watching.wait_for_log(crate::watch::PATIENCE, "Verdict:     Stuck, ").await.unwrap();
    desk.cancel(&name).await;
    assert_eq!(watching.wait(crate::watch::PATIENCE).await.unwrap().code(), Some(0));
    assert_eq!(draining.wait(crate::watch::PATIENCE).await.unwrap().code(), Some(1), "it was canceled");
    // Both write to one log.
    assert_has(&draining.log().unwrap(), &["is being canceled", &format!("nodeevacuation {name} is gone")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_a_name_of_its_drain_and_each_format_has_its_shape() {
    let desk = Desk::new("drainnode").await;
    let node = own_node(&desk).await;
    let pod = asked_pod(&desk, &node).await;
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    evacuate(&desk, &node, &["--force", "--on-refusal=wait", "--detach"]).await;
    let name = drains_of(&desk, &node).await.remove(0);
    let json = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let stuck = controlplane::eventually(crate::watch::PATIENCE, "the drain is stuck", || async {
        let status = json(&kubectl(&desk, &["evacuate", "status", &node, "-o", "json"]).await);
        if status["status"]["blockers"][0]["reason"] == "Refused" { Ok(status) } else { Err(status) }
    });
    let status = stuck.await.unwrap();
    assert_eq!((&status["kind"], &status["metadata"]["name"]), (&json!("NodeEvacuation"), &json!(name)));

    let of_node = format!("node/{node}");
    let resource = format!("nodeevacuation.evacuation.dev/{name}");
    for command in ["status", "why"] {
        for subject in [&node, &of_node, &name, &resource] {
            let text = kubectl(&desk, &["evacuate", command, subject]).await;
            assert_has(&text, &[&name, "Stuck, 0/1 gone. 1 pod needs a change", "what helps: "]);
            let named = kubectl(&desk, &["evacuate", command, subject, "-o", "name"]).await;
            assert_eq!(named.trim(), resource);
        }
    }
    let unknown = desk.fails(1, &["evacuate", "why", "no-such-thing"]).await;
    assert_has(
        &unknown,
        &[
            &format!("there is no pod {}/no-such-thing", desk.namespace()),
            "no nodeevacuation has the name no-such-thing, and none drains a node no-such-thing",
        ],
    );
    let why = json(&kubectl(&desk, &["evacuate", "why", &node, "-o", "json"]).await);
    let drain = &why["drains"][0];
    assert_eq!((&drain["verdict"], &drain["pods"]["total"]), (&json!("Stuck"), &json!(1)), "{why}");
    assert!(drain["heldBy"][0]["wayOut"].is_string(), "{why}");
    let why = json(&desk.kubectl(&["evacuate", "why", "db-0", "-o", "json"]).await);
    assert_eq!((&why["state"], &why["heldBy"]["stuck"]), (&json!("Refused"), &json!(true)), "{why}");
    assert_eq!(why["evacuation"]["kind"], "Evacuation", "{why}");
    let named = desk.kubectl(&["evacuate", "why", "db-0", "-o", "name"]).await;
    assert_has(&named, &["evacuation.evacuation.dev/"]);
    let wide = desk.kubectl(&["evacuate", "why", "db-0", "-o", "wide"]).await;
    assert_has(&wide, &["a backup runs; priority 10000, timeout 60 s"]);
    let wide = kubectl(&desk, &["evacuate", "why", &node, "-o", "wide"]).await;
    let pod = format!("  {}/db-0: Refused (Refuse: a backup runs)", desk.namespace());
    assert!(wide.lines().any(|line| line == pod), "{wide}");
    let all = json(&kubectl(&desk, &["evacuate", "status", "-o", "json"]).await);
    assert_eq!(all["kind"], "NodeEvacuationList");
    let wide = kubectl(&desk, &["evacuate", "status", "-o", "wide"]).await;
    assert_has(wide.lines().next().unwrap(), &["NAME", "REQUESTER", "EXPECTED END"]);
    desk.cancel(&name).await;
    let unknown = desk.platform().kubectl(&["evacuate", "status", &of_node]).await.unwrap();
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert_has(&unknown.stderr, &[&format!("no nodeevacuation drains a node {node}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_prints_its_names_alone_or_each_way_out_in_a_line_of_its_own() {
    let desk = Desk::new("checkformats").await;
    let output = desk.platform().kubectl(&["evacuate", "check", "-o", "name"]).await.unwrap();
    let mut names: Vec<&str> = output.stdout.lines().collect();
    names.sort_unstable();
    let items = desk.check(None).await.items;
    assert_eq!(names, items.keys().collect::<Vec<_>>());

    let help = "What helps: a role with that right";
    for (format, is_apart) in [(&["-o", "wide"][..], true), (&[], false)] {
        let arguments = [&["evacuate", "check", "--as=stranger"][..], format].concat();
        let text = desk.platform().kubectl(&arguments).await.unwrap().stdout;
        assert_has(&text, &[help]);
        assert_eq!(text.lines().any(|line| line.trim_start() == help), is_apart, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_act_of_a_deadline_and_a_request_that_was_taken_back() {
    let desk = Desk::new("whydeadline").await;
    for (name, flags, act) in [
        ("db-0", &["--deadline=10m"][..], "evicts"),
        ("db-1", &["--deadline=10m", "--at-deadline=give-up"], "gives up"),
    ] {
        let pod = desk.silent_pod(name).await;
        let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
        desk.kubectl(&[&["create", "evacuation", name, "--on-refusal=wait"][..], flags].concat()).await;
        let end = format!("): {act}");
        let told = controlplane::eventually(crate::watch::PATIENCE, "the act is named", || async {
            let page = desk.kubectl(&["evacuate", "why", name]).await;
            let is_told = page.lines().any(|line| line.starts_with("  at ") && line.ends_with(&end));
            if is_told { Ok(()) } else { Err(page) }
        });
        told.await.unwrap();
    }

    let again = ["create", "evacuation", "db-0", "--on-refusal=wait", "--deadline=10m", "--wait"];
    let waiting = desk.start(&again);
    waiting.wait_for_log(crate::watch::PATIENCE, "/db-0: Refused").await.unwrap();
    desk.kubectl(&["evacuate", "cancel", "pod/db-0"]).await;
    assert_eq!(waiting.wait(crate::watch::PATIENCE).await.unwrap().code(), Some(1));
    assert_has(&waiting.log().unwrap(), &["/db-0: Canceled ("]);
    assert_has(&desk.kubectl(&["evacuate", "why", "db-0"]).await, &[": Canceled\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_drains_all_of_its_nodes_and_a_pause_holds_them() {
    let desk = Desk::new("drainpool").await;
    let control_plane = desk.control_plane();
    let nodes: Vec<String> = (0..2).map(|number| format!("{}-{number}", desk.namespace())).collect();
    for node in &nodes {
        control_plane.add_node(node, &[("pool", desk.namespace())]).await.unwrap();
        desk.pods.create(&format!("on-{node}"), &PodSpec::default().on(node)).await.unwrap();
    }
    let selector = format!("pool={}", desk.namespace());
    let name = format!("pool-{}", desk.namespace());
    let flags = ["evacuate", "node", "-l", &selector, "--name", &name, "--force", "--max-parallel=1"];
    // A window that is far away keeps the drain from its end.
    kubectl(&desk, &[&flags[..], &["--detach", "--window=0 0 29 2 *", "--window-duration=1h"]].concat())
        .await;
    assert_has(&kubectl(&desk, &["evacuate", "pause", &name]).await, &[&name, "paused"]);
    assert_has(&kubectl(&desk, &["evacuate", "status", &name]).await, &["(paused)", "Starts:"]);
    assert_has(&kubectl(&desk, &["evacuate", "resume", &name]).await, &[&name, "resumed"]);
    kubectl(&desk, &["evacuate", "cancel", &name]).await;

    let output = kubectl(&desk, &[&flags[..], &["--timeout=60s"]].concat()).await;
    for node in &nodes {
        assert_has(&output, &[&format!("node/{node} cordoned"), &format!("node/{node} evacuated")]);
        assert!(cordoned(&desk, node).await);
    }
    assert_eq!(desk.count().await, 2);
    for (command, word) in [("pause", "paused"), ("resume", "resumed")] {
        let late = desk.platform().kubectl(&["evacuate", command, &name]).await.unwrap();
        assert_eq!(late.code, Some(1), "{late:?}");
        let text = format!("error: nodeevacuation {name} cannot be {word}: it has ended");
        assert_has(&late.stderr, &[&text]);
    }
    let none = desk.platform().kubectl(&["evacuate", "node", "-l", "pool=no-such"]).await.unwrap();
    assert_eq!(none.code, Some(0), "{none:?}");
    assert_has(&none.stderr, &["no node has the labels"]);
    let said = kubectl(&desk, &["evacuate", "cancel", &name]).await;
    assert_has(&said, &["0 requests taken back", &format!("node/{} uncordoned", nodes[1])]);
}
