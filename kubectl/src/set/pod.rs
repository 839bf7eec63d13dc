//! One entry of an Evacuation.

use anyhow::{Context, bail};
use evacuation_api::{DeadlineAction, Evacuation, GROUP, Requester};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Map, Value, json};

use super::{
    entry::EntryKey,
    settings::{Settings, words},
};
use crate::{moment::Now, output::say};

/// Number of attempts of a write that others overtake.
const ATTEMPTS: usize = 8;

/// Changes an entry, and prints its new terms.
pub(super) async fn change(
    client: &Client,
    evacuation: Evacuation,
    key: &EntryKey,
    settings: &Settings,
    now: Now,
) -> anyhow::Result<()> {
    let name = evacuation.name_any();
    let old = key.of(&evacuation).cloned();
    if settings.at_deadline.is_some()
        && settings.deadline.is_none()
        && old.as_ref().is_none_or(|entry| entry.deadline.is_none())
    {
        bail!("entry {} of evacuation {name} has no deadline: add --deadline", key.name);
    }
    let deadline = settings.deadline(now.time)?.map(|time| ("deadline", json!(time)));
    let changed = write(client, evacuation, key, settings.fields(deadline)).await?;
    let Some(entry) = key.of(&changed) else { bail!("evacuation {name} lost the entry {}", key.name) };
    say(format_args!(
        "evacuation.{GROUP}/{name}: {} of {} asks now: {}",
        key.name,
        key.owner,
        terms(entry, now)
    ))?;
    if entry.at_deadline == Some(DeadlineAction::Delete) {
        eprintln!("warning: at the deadline the pod is deleted, even if a PodDisruptionBudget forbids it");
    }
    let reached = changed.status.iter().filter_map(|status| status.policy.as_ref());
    let mut reached = reached.flat_map(|policy| &policy.deadlines).filter(|row| row.key() == entry.key());
    if let Some(row) = reached.find(|row| row.reached && Some(row.action) == entry.at_deadline) {
        eprintln!("note: the deadline {} of this entry was reached, and stays reached", now.stamp(&row.time));
    }
    Ok(())
}

fn terms(entry: &Requester, now: Now) -> String {
    words(
        now,
        entry.deadline,
        entry.at_deadline.unwrap_or_default(),
        entry.on_refusal.unwrap_or_default(),
        entry.grace_period_seconds,
    )
}

/// Changes fields of an entry that is there.
///
/// # Errors
///
/// The entry has left, the Evacuation has ended, or the server rejects the change.
pub(crate) async fn write(
    client: &Client,
    mut evacuation: Evacuation,
    key: &EntryKey,
    fields: Map<String, Value>,
) -> anyhow::Result<Evacuation> {
    let (api, name) = (Api::<Evacuation>::default_namespaced(client.clone()), evacuation.name_any());
    let uid = evacuation.uid();
    for _ in 0..ATTEMPTS {
        let patch = Patch::Strategic(entry_patch(&evacuation, key, fields.clone()));
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if is_overtaken(&status) => {}
            written => {
                return written.with_context(|| format!("evacuation {name} cannot be changed"));
            }
        }
        evacuation = api.get(&name).await.with_context(|| format!("evacuation {name} cannot be read"))?;
        if evacuation.uid() != uid || key.of(&evacuation).is_none() {
            bail!("the entry {} has left evacuation {name}", key.name);
        }
    }
    bail!("evacuation {name} changes too often: try again")
}

/// Returns true for the conflict with a newer version. The conflicts of the rules have causes.
fn is_overtaken(status: &kube::core::Status) -> bool {
    status.code == 409 && status.details.as_ref().is_none_or(|details| details.causes.is_empty())
}

/// Returns the patch of one entry. Without the version, an entry that has just left would be added again.
fn entry_patch(evacuation: &Evacuation, key: &EntryKey, mut fields: Map<String, Value>) -> Value {
    fields.insert("owner".to_owned(), json!(key.owner));
    fields.insert("name".to_owned(), json!(key.name));
    json!({
        "metadata": {"resourceVersion": evacuation.resource_version()},
        "spec": {"requesters": [fields]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_conflict_without_a_cause_is_tried_again() {
        let status = |code: u16, causes: Value| -> kube::core::Status {
            serde_json::from_value(json!({"code": code, "details": {"causes": causes}})).unwrap()
        };
        assert!(is_overtaken(&status(409, json!([]))));
        assert!(!is_overtaken(&status(
            409,
            json!([{"reason": "EvacuationFinished", "message": "", "field": ""}])
        )));
        assert!(!is_overtaken(&status(403, json!([]))));
    }
}
