//! The entry of an Evacuation that a command changes.

use std::borrow::Cow;

use evacuation_api::{Evacuation, NodeEvacuation, Requester, RequesterKey};
use evacuation_protocol::is_kept;
use kube::{Client, ResourceExt};

use crate::connection::user_name;

/// Owner and name of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryKey {
    pub(crate) owner: String,
    pub(crate) name: String,
}

impl EntryKey {
    /// Returns the entry of that key.
    pub(crate) fn of<'e>(&self, evacuation: &'e Evacuation) -> Option<&'e Requester> {
        let key = RequesterKey { owner: &self.owner, name: &self.name };
        evacuation.spec.requesters.iter().find(|entry| entry.key() == key)
    }
}

/// Returns the key of the entry to change: that of the owner and name, or else the caller's only one.
/// `command` is the subcommand that changes it, or the drain that it follows.
///
/// # Errors
///
/// There is none or more than one, or a controller would change it back.
pub(crate) async fn find(
    client: &Client,
    evacuation: &Evacuation,
    owner: Option<&str>,
    name: Option<&str>,
    command: &str,
) -> anyhow::Result<EntryKey> {
    let owner = match owner {
        Some(owner) => owner.to_owned(),
        None => user_name(client).await?,
    };
    choose(evacuation, &owner, name, command).map_err(anyhow::Error::msg)
}

fn choose(
    evacuation: &Evacuation,
    owner: &str,
    name: Option<&str>,
    command: &str,
) -> Result<EntryKey, String> {
    let all = &evacuation.spec.requesters;
    let of_owner = |entry: &&Requester| entry.owner == owner && name.is_none_or(|name| entry.name == name);
    let found: Vec<&Requester> = all.iter().filter(of_owner).collect();
    let free: Vec<&Requester> =
        found.iter().copied().filter(|entry| keeper(&entry.name, command).is_none()).collect();
    let title = format!("evacuation {}", evacuation.name_any());
    match (free.as_slice(), found.as_slice()) {
        ([one], _) => Ok(EntryKey { owner: one.owner.clone(), name: one.name.clone() }),
        ([_, _, ..], _) => Err(format!(
            "user {owner} has several requests in {title}: choose one by --requester: {}",
            names(&free)
        )),
        ([], [kept, ..]) => {
            Err(format!("entry {} of {title} {}", kept.name, keeper(&kept.name, command).unwrap_or_default()))
        }
        ([], []) => {
            let others: Vec<String> = all
                .iter()
                .map(|entry| format!("--owner={} --requester={}", shell_word(&entry.owner), entry.name))
                .collect();
            Err(format!(
                "user {owner} has no such request in {title}; to change another's, with the verb override: {}",
                others.join(", or ")
            ))
        }
    }
}

/// Returns a text as one word of a shell, so that a command with it can be pasted.
fn shell_word(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), Cow::into_owned)
}

fn names(entries: &[&Requester]) -> String {
    entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the reason for which a change of the entry of that name would not last. `None` for an entry of a
/// person or of a tool of others.
fn keeper(name: &str, command: &str) -> Option<String> {
    if let Some(drain) = NodeEvacuation::name_in_entry(name) {
        return Some(format!(
            "follows nodeevacuation {drain}, which takes the same command: kubectl evacuate {command} {drain}"
        ));
    }
    is_kept(name).then(|| {
        "is renewed by the gateway or the controller; to ask beside it: kubectl create evacuation".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chosen(entries: &Value, name: Option<&str>) -> Result<String, String> {
        let evacuation = json!({"metadata": {"name": "e"},
            "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": entries}});
        choose(&serde_json::from_value(evacuation).unwrap(), "ann", name, "set").map(|key| key.name)
    }

    #[test]
    fn the_only_entry_of_the_user_is_changed_and_none_that_a_controller_would_change_back() {
        let entry = |owner: &str, name: &str| json!({"owner": owner, "name": name});
        let (own, other) = (entry("ann", "a.b/c"), entry("bob", "a.b/c"));
        let drain = entry("ann", "drain.evacuation.dev/node-a-12345678");
        assert_eq!(chosen(&json!([other, drain, own]), None).unwrap(), "a.b/c");
        for (entries, name, words) in [
            (json!([drain]), None, "kubectl evacuate set node-a"),
            (json!([entry("ann", "gateway.evacuation.dev/eviction")]), None, "the gateway"),
            (json!([other]), None, "--owner=bob --requester=a.b/c"),
            (
                json!([entry("system:serviceaccount:ci:bot", "a.b/c")]),
                None,
                "--owner=system:serviceaccount:ci:bot ",
            ),
            (json!([entry("bob $(id)", "a.b/c")]), None, "--owner='bob $(id)' "),
            (json!([own]), Some("a.b/x"), "no such request"),
            (json!([own, entry("ann", "a.b/d")]), None, "--requester: a.b/c, a.b/d"),
        ] {
            let error = chosen(&entries, name).unwrap_err();
            assert!(error.contains(words), "{words:?} is not in {error:?}");
        }
        assert_eq!(chosen(&json!([own, entry("ann", "a.b/d")]), Some("a.b/d")).unwrap(), "a.b/d");
    }
}
