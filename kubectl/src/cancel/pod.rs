//! The withdrawal of a request for one pod.

use anyhow::Context;
use evacuation_api::{Evacuation, GROUP, Requester};
use evacuation_client::EvacuationHandle;
use kube::{Client, ResourceExt};

use crate::{
    output::tell,
    pod_evacuation::active,
    set::{EntryKey, find},
};

/// Takes the request for a pod back, and says who asks it still.
///
/// # Errors
///
/// Nobody asks the pod, the caller has no such request, or it is too late.
pub(super) async fn cancel(
    client: &Client,
    pod: &str,
    owner: Option<&str>,
    requester: Option<&str>,
) -> anyhow::Result<()> {
    let evacuation = active(client, pod, "").await?;
    let key = find(client, &evacuation, owner, requester, "cancel").await?;
    let entry = Requester { owner: key.owner.clone(), ..Requester::named(&key.name) };
    let name = evacuation.name_any();
    EvacuationHandle::of_entry(client.clone(), evacuation.clone(), entry)
        .withdraw()
        .await
        .with_context(|| format!("the request {} of evacuation {name} was not taken back", key.name))?;
    let full = format!("{}/{pod}", client.default_namespace());
    Ok(tell(format_args!("evacuation.{GROUP}/{name}: {}", left(&evacuation, &key, &full)))?)
}

/// Returns the requests for a pod that remain, in words.
fn left(before: &Evacuation, key: &EntryKey, pod: &str) -> String {
    let taken_back = key.of(before);
    let others = before.spec.requesters.iter().filter(|entry| Some(*entry) != taken_back);
    let others: Vec<String> = others.map(|entry| format!("{} as {}", entry.owner, entry.name)).collect();
    let remains = match others.as_slice() {
        [] => format!("nobody asks pod {pod} to move any more"),
        others => format!("pod {pod} is still asked to move by {}", others.join(", ")),
    };
    format!("request {} of {} taken back, {remains}", key.name, key.owner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_withdrawal_names_who_asks_the_pod_still() {
        let key = EntryKey { owner: "ann".to_owned(), name: "a.b/c".to_owned() };
        for (others, expected) in [
            (json!([]), "request a.b/c of ann taken back, nobody asks pod shop/db-0 to move any more"),
            (
                json!([{"owner": "bob", "name": "a.b/c"}, {"owner": "ann", "name": "drain.evacuation.dev/n-1"}]),
                "request a.b/c of ann taken back, pod shop/db-0 is still asked to move by bob as a.b/c, ann as \
                 drain.evacuation.dev/n-1",
            ),
        ] {
            let mut entries = others;
            entries.as_array_mut().unwrap().push(json!({"owner": "ann", "name": "a.b/c"}));
            let evacuation = json!({"metadata": {"name": "e"},
                "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": entries}});
            assert_eq!(left(&serde_json::from_value(evacuation).unwrap(), &key, "shop/db-0"), expected);
        }
    }
}
