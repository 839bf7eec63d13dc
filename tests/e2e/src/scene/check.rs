//! `kubectl evacuate check`, as a user runs it.

use std::{collections::BTreeMap, time::Duration};

use controlplane::{Output, output_of};
use serde::Deserialize;

use super::Scene;

/// Bound of a check, parts that are down included.
pub const CHECK_LIMIT: Duration = Duration::from_secs(8);

/// The report of a check.
#[derive(Debug)]
pub struct Report {
    /// Exit code.
    pub code: Option<i32>,
    /// Items by their names.
    pub items: BTreeMap<String, Item>,
}

/// An item of a check.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Name.
    pub name: String,
    /// State.
    pub state: String,
    /// Message.
    pub message: String,
    /// What helps.
    pub way_out: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Items {
    items: Vec<Item>,
}

/// Returns the names of the items in that state.
pub fn names_in_state<'a>(items: &'a BTreeMap<String, Item>, state: &str) -> Vec<&'a str> {
    items.values().filter(|item| item.state == state).map(|item| item.name.as_str()).collect()
}

impl Scene {
    /// Runs the check as that user, or else as `admin`.
    pub async fn check(&self, user: Option<&str>) -> Report {
        let mut command = self.platform().kubectl_command();
        if let Some(user) = user {
            command.env("KUBECONFIG", self.control_plane().kubeconfig_for_user(user, None).unwrap());
        }
        command.args(["evacuate", "check", "-o", "json"]);
        command.arg(format!("--request-timeout={}s", CHECK_LIMIT.as_secs()));
        let Output { code, stdout, stderr } = output_of("kubectl", command).await.unwrap();
        let Items { items } = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
        Report { code, items: items.into_iter().map(|item| (item.name.clone(), item)).collect() }
    }
}
