//! Files and processes left after a failed test, and after a control plane that lives on. In a
//! binary of its own, for a panic anywhere in a process keeps the files of its shared control plane.
#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use controlplane::{ControlPlane, Process, eventually};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_test_that_panics_leaves_its_logs_and_the_state_of_its_namespace_but_no_process() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let failing = tokio::spawn(async move {
        let control_plane = ControlPlane::builder().nodes(0).start().await.unwrap();
        let namespace = control_plane.namespace("failing").await.unwrap();
        let pods: Api<Pod> = Api::namespaced(control_plane.client().unwrap(), namespace.name());
        let pod = json!({
            "metadata": { "name": "witness" },
            "spec": { "containers": [{ "name": "main", "image": "none" }] },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let events: Api<Event> = Api::namespaced(control_plane.client().unwrap(), namespace.name());
        eventually(Duration::from_mins(2), "an event", async || {
            match events.list(&ListParams::default()).await {
                Ok(list) if list.items.is_empty() => Err("none".to_owned()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
        .unwrap();
        let pid = control_plane.apiserver().process().pid().unwrap();
        let folder = control_plane.folder().path().to_owned();
        sender.send((folder, namespace.name().to_owned(), pid)).unwrap();
        panic!("the test fails");
    });
    failing.await.unwrap_err();
    let (folder, namespace, pid): (PathBuf, String, u32) = receiver.recv().await.unwrap();
    assert!(!lives(pid));
    let read = |path: &str| std::fs::read_to_string(folder.join("logs").join(path)).unwrap();
    assert!(read(&format!("{namespace}/pods.yaml")).contains("name: witness"));
    assert!(read(&format!("{namespace}/events.yaml")).contains("FailedScheduling"));
    assert!(read("kube-apiserver.log").contains("Serving securely"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_control_plane_that_is_left_running_lives_on_until_its_script_stops_it() {
    let control_plane = ControlPlane::builder().nodes(0).start().await.unwrap();
    let mut command = Command::new("sleep");
    command.arg("600");
    let other = Process::spawn("other", command, &control_plane.logs()).unwrap();
    let folder = control_plane.folder().path().to_owned();
    let config = control_plane.client_config();
    let script = control_plane.leave_running(&[&other]).unwrap();
    let pids = [other.pid().unwrap(), control_plane.etcd().component().process().pid().unwrap()];
    drop((other, control_plane));

    kube::Client::try_from(config).unwrap().apiserver_version().await.unwrap();
    assert!(pids.iter().all(|&pid| lives(pid)));
    assert!(Command::new("sh").arg(script).status().unwrap().success());
    eventually(Duration::from_secs(20), "all are gone", async || {
        let alive: Vec<u32> = pids.iter().copied().filter(|&pid| lives(pid)).collect();
        if alive.is_empty() { Ok(()) } else { Err(format!("{alive:?}")) }
    })
    .await
    .unwrap();
    assert!(!folder.exists());
}
