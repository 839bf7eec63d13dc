//! The candidates for a word, as far as the command line alone tells them. Pure.

use clap::{Arg, Command, builder::Str};

/// Candidates for a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Words with their descriptions.
    pub(super) candidates: Vec<(String, String)>,
    /// The names that are candidates besides.
    pub(super) wanted: Option<Wanted>,
    /// The flags of the connection that the command line has.
    pub(super) connection: Vec<String>,
    /// The beginning of the word.
    pub(super) prefix: String,
    /// The arguments before it, which are not proposed again.
    pub(super) given: Vec<String>,
}

/// Names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Nodes,
    Drains,
    Pods,
    /// Evacuations that have not ended.
    Evacuations,
    Namespaces,
    Contexts,
    Clusters,
    Files,
}

/// Flags that choose the cluster and the namespace.
const CONNECTION: [&str; 14] = [
    "kubeconfig",
    "context",
    "cluster",
    "namespace",
    "impersonate",
    "impersonate_groups",
    "server",
    "user",
    "token",
    "certificate_authority",
    "tls_server_name",
    "insecure_skip_tls_verify",
    "client_certificate",
    "client_key",
];

/// Completes the last of these words.
pub(super) fn complete(root: &Command, words: &[String]) -> Found {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", before_nothing()),
    };
    let mut line = Line { command: root, positionals: Vec::new(), connection: Vec::new(), pending: None };
    for word in before {
        line.take(word);
    }
    let mut found = Found {
        prefix: last.to_owned(),
        given: line.positionals.clone(),
        connection: line.connection.clone(),
        ..Found::default()
    };
    if let Some(flag) = line.pending {
        found.value_of(flag);
    } else if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with('-')) {
        value.clone_into(&mut found.prefix);
        if let Some(flag) = line.flag(name) {
            found.value_of(flag);
        }
    } else if last.starts_with('-') {
        let flags = line.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let long = |arg: &Arg| Some((format!("--{}", arg.get_long()?), help(arg.get_help())));
        found.candidates = flags.filter_map(long).collect();
    } else if line.command.has_subcommands() {
        let shown = line.command.get_subcommands().filter(|command| !command.is_hide_set());
        found.candidates =
            shown.map(|command| (command.get_name().to_owned(), help(command.get_about()))).collect();
    } else {
        let all: Vec<&Arg> = line.command.get_positionals().collect();
        let next = all.get(line.positionals.len()).or(all.last().filter(|arg| takes_many(arg)));
        if let Some(positional) = next {
            found.value_of(positional);
        }
    }
    found
}

fn before_nothing() -> &'static [String] {
    &[]
}

/// The command line before the word.
struct Line<'a> {
    command: &'a Command,
    positionals: Vec<String>,
    connection: Vec<String>,
    /// The flag whose value comes next.
    pending: Option<&'a Arg>,
}

impl<'a> Line<'a> {
    fn take(&mut self, word: &str) {
        if let Some(flag) = self.pending.take() {
            self.note(flag, word);
        } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with('-')) {
            if let Some(flag) = self.flag(name) {
                self.note(flag, value);
            }
        } else if word.starts_with('-') && word.len() > 1 {
            let flag = self.flag(word);
            self.pending = flag.filter(|flag| takes_value(flag));
            if let Some(switch) = flag.filter(|flag| !takes_value(flag)) {
                self.note(switch, "true");
            }
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.command = command;
        } else {
            self.positionals.push(word.to_owned());
        }
    }

    fn note(&mut self, flag: &Arg, value: &str) {
        if let Some(long) = flag.get_long().filter(|_| CONNECTION.contains(&flag.get_id().as_str())) {
            self.connection.push(format!("--{long}={value}"));
        }
    }

    fn flag(&self, word: &str) -> Option<&'a Arg> {
        let mut arguments = self.command.get_arguments();
        if let Some(long) = word.strip_prefix("--") {
            return arguments.find(|arg| arg.get_long() == Some(long));
        }
        let short = word.strip_prefix('-')?.chars().next()?;
        arguments.find(|arg| arg.get_short() == Some(short))
    }
}

impl Found {
    /// Proposes the values of a flag or of an argument.
    fn value_of(&mut self, arg: &Arg) {
        let values = arg.get_possible_values();
        let shown = values.iter().filter(|value| !value.is_hide_set());
        self.candidates = shown.map(|value| (value.get_name().to_owned(), help(value.get_help()))).collect();
        let value_name = arg.get_value_names().and_then(|names| names.first()).map(Str::as_str);
        self.wanted = match (arg.get_id().as_str(), value_name) {
            ("namespace", _) => Some(Wanted::Namespaces),
            ("context", _) => Some(Wanted::Contexts),
            ("cluster", _) => Some(Wanted::Clusters),
            (_, Some("NODE")) => Some(Wanted::Nodes),
            ("name" | "names", Some("NAME" | "NAME|NODE" | "NAME|NODE|pod/NAME")) => Some(Wanted::Drains),
            (_, Some("POD" | "POD|NODE")) => Some(Wanted::Pods),
            (_, Some("EVACUATION|pod/NAME")) => Some(Wanted::Evacuations),
            (_, Some("FILE")) => Some(Wanted::Files),
            _ => None,
        };
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn takes_many(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append)
}

/// Returns the first sentence of a description.
fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}
