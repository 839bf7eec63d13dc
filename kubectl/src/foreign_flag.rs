//! Flags and commands that do not exist, and the tip for people who come from `kubectl drain`.

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Replaces clap's tips for an unknown flag or command. A guess such as `to pass '--force' as a value` helps
/// nobody, and neither does a similar flag that means something else.
pub(crate) fn explained(mut error: Error) -> Error {
    if let Some(ContextValue::String(command)) = error.get(ContextKind::InvalidSubcommand).cloned()
        && let Some(tip) = command_tip(&command)
    {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        return error;
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
    if !flag.starts_with('-') {
        return error;
    }
    error.remove(ContextKind::Suggested);
    if let Some(tip) = tip(flag.split('=').next().unwrap_or_default()) {
        error.remove(ContextKind::SuggestedArg);
        let tip = StyledStr::from(tip);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Returns what means the same here as a flag of `kubectl drain`, or one that all of kubectl's commands have.
fn tip(flag: &str) -> Option<&'static str> {
    drain_tip(flag).or_else(|| global_tip(flag))
}

/// Returns what does here what a command of kubectl does, or what people look for under another name.
fn command_tip(command: &str) -> Option<&'static str> {
    Some(match command {
        "cordon" | "drain" | "nodes" => "kubectl evacuate node NODE cordons the node and drains it",
        "uncordon" | "delete" | "abort" | "stop" => {
            "kubectl evacuate cancel NODE ends the drain of a node and uncordons it; of a pod: kubectl evacuate \
             cancel pod/POD"
        }
        "get" | "list" | "ls" | "watch" => {
            "kubectl evacuate status shows drains; kubectl get evacuations shows pods"
        }
        "describe" | "explain" | "logs" | "events" => {
            "kubectl evacuate why POD, or why NODE, says what holds it and what helps"
        }
        "create" | "evict" | "evacuate" | "pod" => "kubectl create evacuation POD asks a pod to move",
        _ => return None,
    })
}

fn global_tip(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "-n" | "--namespace" => "leave it out: what the command is about has no namespace",
        "--kubeconfig" | "--context" | "--cluster" | "--user" | "--server" | "-s" | "--token" | "--as"
        | "--as-group" | "--request-timeout" | "-v" | "--v" => "leave it out: the command asks no cluster",
        "--as-uid" | "--as-user-extra" => {
            "leave it out: --as and --as-group name a user and groups, and no more"
        }
        "--username" | "--password" => {
            "put them in a kubeconfig: kubectl config set-credentials NAME --username=U --password=P, and then \
             --user NAME"
        }
        "--cache-dir" | "--disable-compression" | "--kuberc" | "--profile" | "--profile-output" => {
            "leave it out: the plugins have neither a cache nor a kuberc nor a profile, and compress replies"
        }
        "--match-server-version" => "leave it out; kubectl evacuate check compares versions",
        "--log-flush-frequency" | "--vmodule" => "leave it out; -v 6 logs requests, -v 8 also connections",
        "--warnings-as-errors" => "leave it out: warnings are lines on standard error",
        _ => return None,
    })
}

fn drain_tip(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "--disable-eviction" => {
            "to delete pods without regard to budgets, let a deadline do it: kubectl evacuate node NODE \
             --deadline 1s --at-deadline delete"
        }
        "--all" | "-A" | "--all-namespaces" => {
            "a drain has all pods of its nodes, in every namespace; to choose nodes by labels: kubectl evacuate node \
             -l LABELS, and for all nodes: -l kubernetes.io/hostname"
        }
        "--delete-local-data" => {
            "kubectl drain's old name of --delete-emptydir-data of kubectl evacuate node"
        }
        "--chunk-size" => "leave it out: the controller watches pods, and lists none for a drain",
        "--now" => "kubectl evacuate node NODE --deadline 1s evicts pods after 1 s, within their budgets",
        "--force"
        | "--delete-emptydir-data"
        | "--ignore-daemonsets"
        | "--pod-selector"
        | "--skip-wait-for-delete-timeout" => {
            "it is a flag of kubectl evacuate node, with kubectl drain's meaning, and for a drain that exists, of \
             kubectl evacuate set"
        }
        "--skip-late-pods" => {
            "it is a flag of kubectl evacuate node, and for a drain that exists, of kubectl evacuate set"
        }
        "--grace-period" | "--on-refusal" | "--deadline" | "--at-deadline" => {
            "it is a flag of kubectl evacuate node and of kubectl create evacuation; to change it in a drain that \
             exists: kubectl evacuate set"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn said(words: &[&str]) -> String {
        let words = ["kubectl evacuate"].iter().chain(words);
        explained(crate::Evacuate::command().try_get_matches_from(words).unwrap_err()).to_string()
    }

    #[test]
    fn a_flag_of_kubectl_drain_gets_the_tip_that_works_here() {
        for (words, expected) in [
            (&["node", "a", "--disable-eviction"][..], "--deadline 1s --at-deadline delete"),
            (&["node", "a", "--disable-eviction=true"], "--deadline 1s --at-deadline delete"),
            (&["node", "--all"], "-l kubernetes.io/hostname"),
            (&["node", "a", "--delete-local-data"], "--delete-emptydir-data"),
            (&["node", "a", "--chunk-size=10"], "leave it out"),
            (&["cancel", "a", "--force"], "a flag of kubectl evacuate node"),
            (&["pause", "a", "--grace-period=0"], "kubectl evacuate set"),
            (&["status", "--ignore-daemonsets"], "kubectl evacuate set"),
            (&["cancel", "a", "--skip-late-pods"], "kubectl evacuate set"),
            (&["status", "--pod-selector=a=b"], "kubectl evacuate set"),
        ] {
            let text = said(words);
            assert!(text.contains(expected), "{expected:?} is not in {text}");
            assert_eq!(text.matches("tip:").count(), 1, "{text}");
            assert!(text.contains("unexpected argument"), "{text}");
        }
    }

    #[test]
    fn a_flag_of_all_commands_of_kubectl_is_taken_or_gets_a_tip_and_never_a_similar_flag() {
        for flag in [
            "--as=a",
            "--as-group=g",
            "--as-uid=1",
            "--as-user-extra=a=b",
            "--cache-dir=d",
            "--certificate-authority=f",
            "--client-certificate=f",
            "--client-key=f",
            "--cluster=c",
            "--context=c",
            "--disable-compression",
            "--insecure-skip-tls-verify",
            "--kubeconfig=f",
            "--kuberc=f",
            "--log-flush-frequency=5s",
            "--match-server-version",
            "--namespace=shop",
            "-nshop",
            "--password=p",
            "--profile=cpu",
            "--profile-output=f",
            "--request-timeout=5s",
            "--server=https://a:6443",
            "-s=https://a:6443",
            "--tls-server-name=a",
            "--token=t",
            "--user=u",
            "--username=u",
            "--v=6",
            "--vmodule=a=6",
            "--warnings-as-errors",
        ] {
            let words = ["kubectl evacuate", "node", "a", "--as=a", flag];
            let Err(error) = crate::Evacuate::command().try_get_matches_from(words) else { continue };
            if error.kind() != ErrorKind::UnknownArgument {
                continue;
            }
            let text = explained(error).to_string();
            assert_eq!(text.matches("tip:").count(), 1, "{flag}: {text}");
            assert!(!text.contains("similar"), "{flag}: {text}");
        }
    }

    #[test]
    fn a_flag_that_the_command_does_not_need_gets_the_reason() {
        for (words, expected) in [
            (&["node", "a", "-n", "shop"][..], "has no namespace"),
            (&["status", "--namespace=shop"], "has no namespace"),
            (&["pause", "a", "--namespace", "shop"], "has no namespace"),
            (&["lint", "-f", "a.yaml", "--context=prod"], "asks no cluster"),
            (&["node", "a", "--kuberc=off"], "leave it out"),
            (&["node", "a", "--username=u"], "kubectl config set-credentials"),
        ] {
            let text = said(words);
            assert!(text.contains(expected), "{expected:?} is not in {text}");
            assert!(!text.contains("similar"), "{text}");
        }
    }

    #[test]
    fn a_typo_gets_the_similar_flag_and_no_other_tip() {
        let text = said(&["node", "a", "--ignore-deamonsets"]);
        assert!(text.contains("'--ignore-daemonsets'") && !text.contains("as a value"), "{text}");
        let text = said(&["node", "a", "--xyz"]);
        assert!(text.contains("'--xyz'") && !text.contains("tip:"), "{text}");
    }

    #[test]
    fn a_command_of_another_name_gets_the_tip_that_works_here_and_a_typo_the_similar_one() {
        for (command, expected) in [
            ("drain", "kubectl evacuate node NODE"),
            ("uncordon", "kubectl evacuate cancel NODE"),
            ("delete", "kubectl evacuate cancel pod/POD"),
            ("get", "kubectl evacuate status"),
            ("describe", "kubectl evacuate why POD"),
            ("create", "kubectl create evacuation POD"),
            ("statsu", "'status'"),
        ] {
            let text = said(&[command, "a"]);
            assert!(text.contains(expected), "{expected:?} is not in {text}");
            assert!(text.contains("unrecognized subcommand"), "{text}");
            assert_eq!(text.matches("tip:").count(), 1, "{text}");
        }
    }

    #[test]
    fn the_flags_of_a_tip_are_understood() {
        let parses = |words: &[&str]| {
            let words = ["kubectl evacuate"].iter().chain(words);
            crate::Evacuate::command()
                .try_get_matches_from(words)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(parses(&["node", "a", "--deadline", "1s", "--at-deadline", "delete"]), Ok(()));
        assert_eq!(parses(&["node", "-l", "kubernetes.io/hostname"]), Ok(()));
        assert!(crate::label_selector::parse("kubernetes.io/hostname").is_ok());
    }
}
