//! The descheduler 0.36, with its policy for old pods.

use std::process::Command;

use controlplane::GoTool;

use crate::{
    cast::{Cast, kubeconfig, on_own_node, running},
    stage::Stage,
};

const DESCHEDULER: GoTool = GoTool {
    name: "descheduler",
    package: "sigs.k8s.io/descheduler/cmd/descheduler",
    module: None,
    toolchain: None,
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../../callers/descheduler/go.mod")),
        ("go.sum", include_str!("../../callers/descheduler/go.sum")),
    ],
};

#[tokio::test(flavor = "multi_thread")]
async fn the_descheduler_moves_each_pod_once_its_app_is_ready() {
    let stage = Stage::new("descheduler").await;
    let built = tokio::task::spawn_blocking(|| DESCHEDULER.build()).await.unwrap().unwrap();
    let cast = Cast::enter(&stage, &on_own_node(&stage)).await;
    let policy = format!(
        "apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: old
  pluginConfig:
  - name: PodLifeTime
    args:
      maxPodLifeTimeSeconds: 1
      namespaces:
        include: [{}]
  plugins:
    deschedule:
      enabled: [PodLifeTime]
",
        stage.namespace()
    );
    let file = stage.control_plane().folder().path().join("descheduler.yaml");
    std::fs::write(&file, policy).unwrap();
    let mut command = Command::new(built.program);
    command.arg(format!("--kubeconfig={}", kubeconfig(&stage, "descheduler-sa").await.display()));
    command.arg(format!("--policy-config-file={}", file.display())).args([
        "--descheduling-interval=3s",
        "--secure-port=0",
        "--v=3",
        "--leader-elect=false",
    ]);
    let descheduler = running(&stage, "descheduler-sa", command);
    cast.leaves(&stage).await;
    assert!(stage.stays(cast.pod("refuses")).await);
    assert!(descheduler.is_running(), "{:?}", descheduler.log());
    cast.check(&stage, "system:serviceaccount:kube-system:descheduler-sa");
    let entries: Vec<_> = stage.all_evacuations().await.into_iter().flat_map(|e| e.spec.requesters).collect();
    assert!(entries.iter().all(|entry| entry.name == "gateway.evacuation.dev/descheduler"), "{entries:?}");
}
