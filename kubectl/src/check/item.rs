//! An item of the report.

use std::fmt::{Display, Formatter, Result};

use serde::Serialize;

use super::reader::Unread;
use crate::{
    connection::CHECK_FIRST,
    plain::{columns, plain},
};

/// Words by which a message of the connection, or a warning of the API server, names the place to look at.
pub(super) const LOOK_AT: &str = ". Look at: ";

/// State of a part of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    /// It works.
    Ok,
    /// It works, and something about it needs care.
    Warning,
    /// It does not work.
    Failed,
    /// The state cannot be read.
    Unknown,
    /// An optional part that is not there.
    NotInstalled,
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::NotInstalled => "not installed",
        })
    }
}

/// A part of the installation with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) message: String,
    /// A command, or the thing to look at. Absent where nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) way_out: Option<String>,
}

impl Item {
    /// A part that works.
    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Ok, message: message.into(), way_out: None }
    }

    /// A part that works and needs care.
    pub(super) fn warning(
        name: &'static str,
        message: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self { name, state: State::Warning, message: message.into(), way_out: Some(way_out.into()) }
    }

    /// A part that does not work.
    pub(super) fn failed(name: &'static str, message: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { name, state: State::Failed, message: message.into(), way_out: Some(way_out.into()) }
    }

    /// An optional part that is not there, as that object shows.
    pub(super) fn not_installed(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::NotInstalled, message: message.into(), way_out: None }
    }

    /// A part whose state cannot be read for that reason.
    pub(super) fn unknown(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Unknown, message: message.into(), way_out: None }
    }

    /// A part whose object was not read. `absent` is the message for an object that does not exist.
    pub(super) fn unread(name: &'static str, unread: &Unread, absent: &str, way_out: &str) -> Self {
        match unread {
            Unread::Forbidden(right) => Self {
                way_out: Some("a role with that right".to_owned()),
                ..Self::unknown(name, format!("you cannot {right}"))
            },
            Unread::Absent => Self::failed(name, absent, way_out),
            Unread::Failed(text) => match text.split_once(LOOK_AT) {
                Some((message, place)) => {
                    Self::failed(name, message, place.strip_prefix(CHECK_FIRST).unwrap_or(place))
                }
                None => Self::failed(name, text, way_out),
            },
        }
    }

    /// Makes an item that is ok one that needs care. Another one keeps its state.
    #[must_use]
    pub(super) fn worsened(mut self, way_out: impl Into<String>) -> Self {
        if self.state == State::Ok {
            self.state = State::Warning;
            self.way_out = Some(way_out.into());
        }
        self
    }
}

/// Returns the report as text: one line for each item. A wide one has the way out in a line of its own.
pub(super) fn text(items: &[Item], wide: bool) -> Vec<String> {
    let mut rows = Vec::new();
    for item in items {
        let message = item.message.trim_end_matches('.');
        let help = item.way_out.as_ref().map(|way_out| format!("What helps: {way_out}"));
        let (message, help) = match help {
            Some(help) if !wide => (format!("{message}. {help}"), None),
            help => (message.to_owned(), help),
        };
        rows.push(vec![item.name.to_owned(), item.state.to_string(), plain(&message)]);
        rows.extend(help.map(|help| vec![String::new(), String::new(), plain(&help)]));
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_one_line_with_its_way_out() {
        let items = [
            Item::ok("store", "works"),
            Item::failed("controller", "no lease\u{1b}.", "kubectl get pods"),
            Item::unknown("gateway", "not known"),
        ];
        assert_eq!(
            text(&items, false),
            [
                "store        ok        works",
                "controller   failed    no lease . What helps: kubectl get pods",
                "gateway      unknown   not known",
            ]
        );
        assert_eq!(
            text(&items, true)[1..3],
            ["controller   failed    no lease", "                       What helps: kubectl get pods"]
        );
    }

    #[test]
    fn json_names_the_way_out_only_where_there_is_one() {
        let items = [Item::ok("store", "works"), Item::warning("clocks", "7 s", "chrony")];
        assert_eq!(
            serde_json::to_value(items).unwrap(),
            serde_json::json!([
                {"name": "store", "state": "ok", "message": "works"},
                {"name": "clocks", "state": "warning", "message": "7 s", "wayOut": "chrony"},
            ])
        );
    }

    #[test]
    fn an_object_that_the_user_may_not_read_is_unknown_and_one_without_answer_has_failed() {
        let item = |unread: Unread| Item::unread("store", &unread, "there is none", "deploy");
        let forbidden = item(Unread::Forbidden("get resource \"leases\"".to_owned()));
        assert_eq!(
            (forbidden.state, forbidden.message.as_str()),
            (State::Unknown, "you cannot get resource \"leases\"")
        );
        assert_eq!(item(Unread::Absent), Item::failed("store", "there is none", "deploy"));
        for place in ["the pods", "kubectl evacuate check; the pods"] {
            let failed = item(Unread::Failed(format!("the API does not answer. Look at: {place}")));
            assert_eq!(failed, Item::failed("store", "the API does not answer", "the pods"));
        }
        assert_eq!(item(Unread::Failed("x".to_owned())), Item::failed("store", "x", "deploy"));
    }
}
