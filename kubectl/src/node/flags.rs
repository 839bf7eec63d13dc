//! The flags of `kubectl evacuate node`.

use std::time::Duration;

use clap::{ArgAction, Args, builder::NonEmptyStringValueParser};

use crate::{
    connection::Connection,
    dry_run::DryRunFlag,
    duration::timeout,
    node_name::node_name,
    output::View,
    requester_flags::{OnRefusal, RequestFlags},
};

/// Drain nodes by asking: cordon them, ask each of their pods to move, and show the answers.
///
/// The command creates a NodeEvacuation, which the controller carries out, also after the command has ended.
/// The same command again returns to a drain that is in progress.
///
/// A node with a pod that may not be drained is left out, and the others are drained: exit code 1 at the end.
///
/// Exit codes: 0 every node is drained, 1 an error, 2 a node is not drained because a pod was left alone or
/// because the node was uncordoned, 3 the timeout was reached.
#[derive(Args, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are kubectl drain's")]
pub struct Node {
    /// Names of nodes, also as node/NAME.
    #[arg(
        value_name = "NODE",
        required_unless_present = "selector",
        conflicts_with = "selector",
        value_parser = node_name
    )]
    pub(super) nodes: Vec<String>,
    /// Drain all nodes with these labels.
    #[arg(short = 'l', long, value_parser = NonEmptyStringValueParser::new())]
    pub(super) selector: Option<String>,
    /// Name of the NodeEvacuation; made from the node's name by default.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Consequence of a refusal. With wait, the drain waits until the app changes its answer.
    #[arg(long, value_enum, ignore_case = true, default_value = "give-up")]
    pub(super) on_refusal: OnRefusal,
    #[command(flatten)]
    pub(super) request: RequestFlags,
    /// Leave pods of DaemonSets alone. Without the flag such a pod stops the command.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    pub(super) ignore_daemonsets: bool,
    /// Continue even if there are pods with emptyDir volumes, whose data is lost.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    pub(super) delete_emptydir_data: bool,
    /// Continue even if there are pods without a controller, which nothing creates again.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    pub(super) force: bool,
    /// Leave pods alone that come to a node after its drain began, such as those that tolerate the cordon.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    pub(super) skip_late_pods: bool,
    /// Only the pods with these labels; all by default and if empty.
    #[arg(long, value_name = "LABELS")]
    pub(super) pod_selector: Option<String>,
    /// Skip pods whose grace period ended more than this many seconds ago; 0 skips none.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) skip_wait_for_delete_timeout: u32,
    /// Maximum number of nodes that are drained at a time; all by default.
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) max_parallel: Option<i32>,
    /// Maximum number of pods that are asked at a time, of all nodes together; all by default.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) max_parallel_pods: Option<i32>,
    /// Stop waiting after this time, with exit code 3; 0 means never. The drain continues.
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub(super) timeout: Option<Duration>,
    /// Create the NodeEvacuation and do not wait.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    pub(super) detach: bool,
    /// Print the pods that the drain would ask, skip, or be held back by, and change nothing. Exit code 1 if
    /// a pod stops the drain.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true,
          conflicts_with_all = ["dry_run", "detach"])]
    pub(super) plan: bool,
    /// Output format of the plan. JSON and YAML have one object.
    #[arg(short, long, value_enum, requires = "plan")]
    pub(super) output: Option<View>,
    #[command(flatten)]
    pub(super) dry_run: DryRunFlag,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Command {
        #[command(flatten)]
        node: Node,
    }

    fn parse(arguments: &[&str]) -> Result<Node, String> {
        let all = ["node"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.node).map_err(|error| error.to_string())
    }

    #[test]
    fn a_node_is_named_as_kubectl_prints_it() {
        for (text, expected) in [
            ("a", Some("a")),
            ("node/a", Some("a")),
            ("nodes/a", Some("a")),
            ("pod/a", None),
            ("node/", None),
        ] {
            assert_eq!(node_name(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn switches_take_true_and_false_as_kubectl_drain_does() {
        for (flag, expected) in [("--force", true), ("--force=true", true), ("--force=false", false)] {
            assert_eq!(parse(&["a", flag]).unwrap().force, expected, "{flag}");
        }
        assert_eq!(
            parse(&["--ignore-daemonsets", "a"]).unwrap().nodes,
            ["a"],
            "a node is no value of a flag"
        );
    }

    #[test]
    fn the_guide_has_a_row_for_each_flag_of_kubectl_drain_and_names_the_field_that_it_sets() {
        let page = include_str!("../../../docs/guide/kubectl-drain.md");
        let (_, flags) = page.split_once("## Flags\n").unwrap();
        let (flags, _) = flags.split_once("\n## ").unwrap();
        let rows: Vec<Vec<&str>> =
            flags.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        let spec =
            |arguments: &[&str]| serde_json::to_value(parse(arguments).unwrap().spec().unwrap()).unwrap();
        // The flags of kubectl drain 1.37, and the arguments that mean the same here.
        for (flag, arguments) in [
            ("NODE...", &["a"][..]),
            ("-l", &["-l", "pool=b"]),
            ("--ignore-daemonsets", &["a", "--ignore-daemonsets"]),
            ("--delete-emptydir-data", &["a", "--delete-emptydir-data"]),
            ("--force", &["a", "--force"]),
            ("--pod-selector", &["a", "--pod-selector=app"]),
            ("--skip-wait-for-delete-timeout", &["a", "--skip-wait-for-delete-timeout=5"]),
            ("--grace-period", &["a", "--grace-period=5"]),
            ("--timeout", &["a", "--timeout=5s"]),
            ("--disable-eviction", &["a", "--deadline=1s", "--at-deadline=delete"]),
            ("--dry-run", &["a", "--dry-run=server"]),
            ("--chunk-size", &["a"]),
        ] {
            let name = format!("`{flag}`");
            let row =
                rows.iter().find(|row| row.get(1).is_some_and(|cell| cell.split(", ").any(|it| it == name)));
            let row = row.unwrap_or_else(|| panic!("{flag} has no row"));
            let set = spec(arguments);
            if row[2] == "none" {
                assert_eq!(set, spec(&["a"]), "{flag}");
                continue;
            }
            let is_set = |field: &str| {
                let (path, value) = field.split_once(": ").unwrap_or((field, ""));
                let found = set.pointer(&format!("/{}", path.replace('.', "/")));
                let found = found.filter(|found| !found.is_null() && **found != serde_json::json!([]));
                found.is_some_and(|found| value.is_empty() || found == value)
            };
            let fields = row[2].split(", ").map(|field| field.trim_matches('`'));
            assert_eq!(fields.filter(|field| is_set(field)).count(), 1, "{flag}: {} {set}", row[2]);
        }
    }

    #[test]
    fn usage_that_means_nothing_is_refused() {
        for (arguments, expected) in [
            (&[][..], "NODE"),
            (&["a", "-l", "pool=b"], "--selector"),
            (&["-l", ""], "--selector"),
            (&["a", "-n", "shop"], "-n"),
            (&["a", "--namespace=shop"], "--namespace"),
            (&["a", "--plan", "--detach"], "--detach"),
            (&["a", "--max-parallel=0"], "--max-parallel"),
            (&["a", "--requester=acme.io/a"], "--requester"),
            (&["a", "--force=perhaps"], "perhaps"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }
}
