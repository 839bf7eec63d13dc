//! End-to-end suites that a path can touch.

/// Suites that run for a change below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    All,
    Only(&'static [&'static str]),
}

use Touches::{All, Only};

/// End-to-end suites that files below each path can touch. The longest path decides, and a path that is not
/// here touches all of them. A test keeps the table complete.
pub(super) const TABLE: &[(&str, Touches)] = &[
    (".cargo", All),
    (".ci", Only(&[])),
    (".github", Only(&[])),
    (".gitignore", Only(&[])),
    ("ARCHITECTURE.md", Only(&[])),
    ("CHANGELOG.md", Only(&[])),
    ("CONTRIBUTING.md", Only(&[])),
    ("Cargo.lock", All),
    ("Cargo.toml", All),
    ("LICENSE", Only(&[])),
    ("MAINTAINERS.md", Only(&[])),
    ("README.md", Only(&[])),
    ("ROADMAP.md", Only(&[])),
    ("SCOPE.md", Only(&[])),
    ("SECURITY.md", Only(&[])),
    ("agent", Only(&["apps"])),
    ("api", All),
    ("apiserver", All),
    ("client", All),
    ("clippy.toml", Only(&[])),
    ("controller", All),
    ("controller/src/annotation_check", Only(&["registration"])),
    ("controller/src/bridges", Only(&["bridges"])),
    ("controller/src/builtin", Only(&["builtin", "stories"])),
    ("controller/src/cluster", All),
    ("controller/src/drain", Only(&["bridges", "drain", "kubectl", "outages", "stories", "ways_out"])),
    ("controller/src/eviction_request", Only(&["eviction_request"])),
    ("controller/src/negotiation", Only(&["apps", "attacks", "negotiation", "outages", "stories"])),
    ("controller/src/pod_group", Only(&["attacks"])),
    ("controller/src/process", All),
    ("controller/src/refresh", Only(&["refresh"])),
    ("controller/src/rule", Only(&["drain"])),
    ("controller/src/unasked", Only(&["negotiation"])),
    ("deny.toml", Only(&[])),
    ("deploy", All),
    // Pages whose examples are played.
    ("docs", Only(&["apps", "gateway", "negotiation", "stories", "ways_out"])),
    ("docs/guide/kubectl-drain.md", Only(&["drain"])),
    ("fuzz", Only(&[])),
    ("gateway", Only(&["apps", "attacks", "gateway", "memory", "ways_out"])),
    // One test of `outages` runs a plugin, too, in the middle of the outage of an API server.
    ("kubectl", Only(&["kubectl", "silence", "stories", "ways_out"])),
    ("machinery", All),
    ("machinery/admission", Only(&["admission"])),
    ("machinery/apply", Only(&["admission", "clients"])),
    ("machinery/audit", Only(&["admission", "clients"])),
    ("machinery/auth", All),
    ("machinery/client", All),
    ("machinery/events", All),
    ("machinery/example", Only(&[])),
    ("machinery/logging", Only(&["apps"])),
    ("machinery/merge", All),
    ("machinery/openapi", Only(&["admission", "clients"])),
    ("machinery/schema", Only(&["admission", "clients"])),
    ("machinery/server", All),
    ("machinery/storage", Only(&["attacks", "clients", "memory", "outages"])),
    ("machinery/tracing", Only(&["admission", "clients"])),
    ("machinery/validation", Only(&["admission", "clients"])),
    ("machinery/watch", All),
    ("protocol", All),
    ("protocol/src/drain", Only(&["bridges", "drain", "kubectl", "outages", "stories", "ways_out"])),
    ("protocol/src/eviction_request", Only(&["eviction_request"])),
    ("protocol/src/pod_group", Only(&["attacks"])),
    ("protocol/src/rule", Only(&["drain"])),
    ("rust-toolchain.toml", All),
    ("rustfmt.toml", Only(&[])),
    ("tests/conformance", Only(&[])),
    ("tests/controlplane", All),
    ("tests/e2e", All),
    ("tests/e2e/callers", Only(&[])),
    ("tests/e2e/peers", Only(&[])),
    ("tests/machinery", Only(&[])),
    ("tests/model", Only(&[])),
    ("tests/reaper", All),
    ("xtask", Only(&[])),
];

/// Returns the suites that a file can touch. A suite's own files touch just it.
pub(super) fn touches(path: &str) -> (Touches, Option<&str>) {
    let own = path.strip_prefix("tests/e2e/tests/").and_then(|rest| rest.split('/').next());
    if own.is_some() {
        return (Only(&[]), own);
    }
    let is_below =
        |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let rows = TABLE.iter().filter(|(folder, _)| is_below(folder));
    (rows.max_by_key(|(folder, _)| folder.len()).map_or(All, |(_, touches)| *touches), None)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::command::{command, output, root};

    #[test]
    fn the_longest_path_decides_and_an_unknown_one_touches_all_suites() {
        let of_kubectl = Only(&["kubectl", "silence", "stories", "ways_out"]);
        assert_eq!(touches("kubectl/src/main.rs"), (of_kubectl, None));
        assert_eq!(touches("controller/src/bridges/x/mod.rs"), (Only(&["bridges"]), None));
        assert_eq!(touches("controller/src/lib.rs"), (All, None));
        assert_eq!(touches("kubectl-new/src/main.rs"), (All, None));
        assert_eq!(touches("tests/e2e/tests/drain/records.rs"), (Only(&[]), Some("drain")));
        assert_eq!(touches("tests/e2e/src/scene/mod.rs"), (All, None));
    }

    #[test]
    fn each_top_level_name_and_each_folder_of_the_controller_has_a_row_and_each_row_is_there()
    -> anyhow::Result<()> {
        let root = root()?;
        let files = output(command("git")?.args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
        let rows: BTreeSet<&str> = TABLE.iter().map(|(folder, _)| *folder).collect();
        assert_eq!(rows.len(), TABLE.len(), "a path has two rows");
        for file in files.lines() {
            let parts: Vec<&str> = file.split('/').collect();
            let needed = match *parts.as_slice() {
                ["controller", "src", folder, _, ..] => format!("controller/src/{folder}"),
                ["machinery" | "tests", folder, _, ..] => format!("{}/{folder}", parts[0]),
                [first, ..] => first.to_owned(),
                [] => continue,
            };
            assert!(rows.contains(needed.as_str()) || needed == "tests", "{needed} has no row");
        }
        for row in rows {
            assert!(root.join(row).exists(), "{row} is not there");
        }
        let suites: BTreeSet<String> = fs::read_dir(root.join("tests/e2e/tests"))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<anyhow::Result<_>>()?;
        for (row, touches) in TABLE {
            let Only(named) = touches else { continue };
            let unknown = named.iter().find(|name| !suites.contains(**name));
            assert_eq!(unknown, None, "{row} names a suite that is not there");
        }
        Ok(())
    }
}
