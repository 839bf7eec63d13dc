//! The story held against what kube-apiserver's audit log says.

use anyhow::{Context, bail, ensure};
use controlplane::AuditEvent;
use evacuation_e2e::Platform;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;

use crate::{
    scene::{Ends, Scene, WORK_SECONDS},
    story::Story,
};

/// Checks that every answer was honoured.
///
/// # Errors
///
/// Names the first answer that was not.
pub(crate) async fn check(
    platform: &Platform,
    scene: &Scene,
    ends: &Ends,
    story: &Story,
) -> anyhow::Result<()> {
    let log = platform.control_plane().audit_events()?;
    ensure!(
        ends.one_pod.code == Some(0),
        "evacuating web did not succeed: {:?}",
        ends.one_pod
    );
    ensure!(
        ends.node.code == Some(2),
        "evacuating the node did not report the refusal: {:?}",
        ends.node
    );

    let answered = answered(&log, &scene.accepting)?;
    let evicted = evicted(&log, &scene.accepting)?;
    ensure!(answered < evicted, "web was evicted before it accepted");
    story.tell(format!(
        "audit: web accepted, and was evicted {} ms later",
        millis(answered, evicted)
    ));

    let asked = first_answer(&log, &scene.working)?;
    let accepted = self::answered(&log, &scene.working)?;
    let evicted = self::evicted(&log, &scene.working)?;
    ensure!(accepted < evicted, "worker was evicted before it accepted");
    // The work begins when the question arrives, a moment before the first answer is recorded.
    let given = millis(asked, evicted);
    ensure!(
        given >= WORK_SECONDS * 1000 - 500,
        "worker was given only {given} ms"
    );
    story.tell(format!(
        "audit: worker asked for time, and was evicted {given} ms later"
    ));

    ensure!(
        evictions(&log, &scene.refusing).next().is_none(),
        "backup was evicted although it refused"
    );
    let now = scene
        .now(&scene.refusing)
        .await?
        .context("backup is gone although it refused")?;
    ensure!(
        now.metadata.deletion_timestamp.is_none(),
        "backup is going although it refused"
    );
    story.tell("audit: backup refused, nothing evicted it, it still runs");

    budget(&log, scene, story).await
}

/// Two replicas, one may be down: the second eviction comes after a replacement of the first was ready, and the API is
/// asked at most once more than there are pods.
async fn budget(log: &[AuditEvent], scene: &Scene, story: &Story) -> anyhow::Result<()> {
    let mut times = Vec::new();
    let mut calls = 0;
    for pod in &scene.plain {
        ensure!(
            scene.now(pod).await?.is_none(),
            "{} is still there",
            pod.name_any()
        );
        times.push(evicted(log, pod)?);
        calls += evictions(log, pod).count();
    }
    times.sort_unstable();
    let [first, second] = times.as_slice() else {
        bail!("plain has two replicas")
    };
    let mut ready = Vec::new();
    for pod in scene.app("plain").await? {
        ready.extend(last_status(log, &pod));
    }
    let replaced = ready.iter().min().context("plain has no replacement")?;
    ensure!(
        replaced <= second,
        "the second plain pod was evicted before a replacement of the first was ready"
    );
    ensure!(
        calls <= scene.plain.len() + 1,
        "{calls} eviction calls for two pods"
    );
    story.tell(format!(
        "audit: plain's second pod was evicted {} ms after the first, {} ms after its replacement was ready, with {calls} eviction calls",
        millis(*first, *second),
        millis(*replaced, *second)
    ));
    Ok(())
}

/// When the node last reported on a pod: with that report it was ready.
fn last_status(log: &[AuditEvent], pod: &Pod) -> Option<Timestamp> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let report = log.iter().rfind(|event| {
        event.resource() == "pods"
            && event.subresource() == "status"
            && event.namespace() == namespace
            && event.name() == name
            && event.user().contains("kwok")
    });
    report.and_then(AuditEvent::received)
}

/// The calls of the eviction API for a pod.
fn evictions<'a>(log: &'a [AuditEvent], pod: &Pod) -> impl Iterator<Item = &'a AuditEvent> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    log.iter().filter(move |event| {
        event.resource() == "pods"
            && event.subresource() == "eviction"
            && event.namespace() == namespace
            && event.name() == name
    })
}

/// When the eviction arrived that the API took.
fn evicted(log: &[AuditEvent], pod: &Pod) -> anyhow::Result<Timestamp> {
    let taken = evictions(log, pod).find(|event| event.code() == 201);
    taken
        .and_then(AuditEvent::received)
        .with_context(|| format!("{} was not evicted", pod.name_any()))
}

/// The answers that a pod itself gave and that were recorded.
fn answers<'a>(log: &'a [AuditEvent], pod: &Pod) -> impl Iterator<Item = &'a AuditEvent> {
    let namespace = pod.namespace().unwrap_or_default();
    let prefix = format!("{}-", pod.name_any());
    log.iter().filter(move |event| {
        event.resource() == "selfevacuations"
            && event.subresource() == "respond"
            && event.namespace() == namespace
            && event.name().starts_with(&prefix)
            && (200..300).contains(&event.code())
    })
}

fn first_answer(log: &[AuditEvent], pod: &Pod) -> anyhow::Result<Timestamp> {
    let first = answers(log, pod).next().and_then(AuditEvent::answered);
    first.with_context(|| format!("{} did not answer", pod.name_any()))
}

fn answered(log: &[AuditEvent], pod: &Pod) -> anyhow::Result<Timestamp> {
    let last = answers(log, pod).last().and_then(AuditEvent::answered);
    last.with_context(|| format!("{} did not answer", pod.name_any()))
}

fn millis(from: Timestamp, to: Timestamp) -> i64 {
    i64::try_from(to.duration_since(from).as_millis()).unwrap_or(i64::MAX)
}
