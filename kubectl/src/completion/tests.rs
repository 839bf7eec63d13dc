use clap::CommandFactory;

use super::words::{Found, Wanted, complete};

fn found(words: &[&str]) -> Found {
    let mut root = crate::Evacuate::command();
    root.build();
    complete(&root, &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
}

fn words(found: &Found) -> Vec<&str> {
    found.candidates.iter().map(|(word, _)| word.as_str()).collect()
}

#[test]
fn the_first_word_is_a_subcommand_and_no_hidden_one() {
    let first = found(&[""]);
    for command in ["node", "status", "answer", "why", "check"] {
        assert!(words(&first).contains(&command), "{command}");
    }
    assert!(!words(&first).contains(&"__complete"));
    assert!(first.candidates.iter().any(|(word, help)| word == "why" && help.starts_with("Show why")));
}

#[test]
fn a_dash_proposes_the_flags_of_the_subcommand() {
    let flags = found(&["node", "a", "--f"]);
    assert!(words(&flags).contains(&"--force") && words(&flags).contains(&"--ignore-daemonsets"));
    assert_eq!(flags.prefix, "--f");
    assert!(!words(&found(&["status", "--f"])).contains(&"--force"));
}

#[test]
fn values_come_from_the_flag_or_are_names() {
    for (line, expected) in [
        (&["node", ""][..], Wanted::Nodes),
        (&["node", "a", ""], Wanted::Nodes),
        (&["node", "--ignore-daemonsets", ""], Wanted::Nodes),
        (&["node", "--timeout", "5m", ""], Wanted::Nodes),
        (&["status", ""], Wanted::Drains),
        (&["cancel", "a", ""], Wanted::Drains),
        (&["why", "-n", "shop", ""], Wanted::Pods),
        (&["why", "-n", ""], Wanted::Namespaces),
        (&["answer", ""], Wanted::Evacuations),
        (&["node", "--context="][..], Wanted::Contexts),
        (&["lint", "-f", ""], Wanted::Files),
    ] {
        assert_eq!(found(line).wanted, Some(expected), "{line:?}");
    }
    assert_eq!(found(&["status", "a", ""]).wanted, None, "it takes one name");
    assert_eq!(words(&found(&["node", "--on-refusal", ""])), ["give-up", "wait", "override"]);
    let value = found(&["node", "--on-refusal=w"]);
    assert_eq!((words(&value).len(), value.prefix.as_str()), (3, "w"));
    assert_eq!(words(&found(&["answer", "a", ""])), ["accept", "delay", "refuse"]);
}

#[test]
fn the_flags_of_the_connection_are_kept() {
    let found = found(&["why", "-n", "shop", "--context=prod", "--as", "alice", ""]);
    assert_eq!(found.connection, ["--namespace=shop", "--context=prod", "--as=alice"]);
    let found = self::found(&["why", "-s", "https://x", "--insecure-skip-tls-verify", ""]);
    assert_eq!(found.connection, ["--server=https://x", "--insecure-skip-tls-verify=true"]);
}
