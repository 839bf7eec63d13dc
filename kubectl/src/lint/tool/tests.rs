use std::fs;

use super::*;

/// Runs a script in a folder with one file.
fn run(script: &'static [&'static str], limits: &Limits) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web.yaml"), "kind: Pod\n").unwrap();
    let tool = Tool { name: "kustomize build", program: "/bin/sh".into(), arguments: script };
    let output = tool.render(folder.path(), limits);
    output.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.to_string())
}

#[test]
#[cfg(unix)]
fn a_tool_runs_in_the_folder_and_its_output_is_returned() {
    assert_eq!(run(&["-c", "cat web.yaml; echo '# Warning: old' >&2"], &LIMITS).unwrap(), "kind: Pod\n");
    assert_eq!(run(&["-c", "true"], &LIMITS).unwrap(), "");
    // Standard input is empty.
    assert_eq!(run(&["-c", "cat"], &LIMITS).unwrap(), "");
}

#[test]
#[cfg(unix)]
fn a_tool_gets_no_secrets_of_the_environment_and_no_network() {
    let environment = run(&["-c", "env"], &LIMITS).unwrap();
    let names: Vec<_> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    for name in names {
        let is_known = KEPT.contains(&name)
            || SET.iter().any(|(set, _)| *set == name)
            // Shells set these themselves.
            || ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
        assert!(is_known, "{name}");
    }
    for (name, value) in SET {
        assert!(environment.contains(&format!("{name}={value}\n")), "{environment}");
    }
}

#[test]
#[cfg(unix)]
fn a_tool_that_fails_is_reported_with_its_first_line() {
    for (script, expected) in [
        (&["-c", "echo kind: Pod; echo 'no such file' >&2; echo more >&2; exit 1"], "no such file"),
        (&["-c", "echo '# Warning: old' >&2; echo 'no base' >&2; exit 1"], "no base"),
        (&["-c", "exit 3"], "exit status: 3"),
    ] {
        assert_eq!(run(script, &LIMITS), Err(format!("kustomize build failed: {expected}")));
    }
}

#[test]
#[cfg(unix)]
fn a_tool_is_killed_at_its_limits() {
    let short = Limits { time: Duration::from_millis(200), bytes: 1000 };
    for script in [&["-c", "exec sleep 3"], &["-c", "exec >&-; sleep 3"], &["-c", "sleep 3 & sleep 3"]] {
        assert_eq!(run(script, &short), Err("kustomize build did not end within 0 s".to_owned()));
    }
    let small = Limits { time: Duration::from_mins(10), bytes: 1000 };
    assert_eq!(
        run(&["-c", "while :; do echo kind: Pod; done"], &small),
        Err("kustomize build printed more than 1000 bytes".to_owned())
    );
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let tool = Tool { name: "helm template", program: "/no/such/file".into(), arguments: &[] };
    let error = tool.render(Path::new("."), &LIMITS).unwrap_err();
    assert_eq!(error.to_string(), "helm template cannot be run");
}

#[test]
fn the_line_of_a_tool_has_no_warning_no_time_and_no_control_characters() {
    for (errors, expected) in [
        ("", None),
        ("\n# Warning: 'commonLabels' is deprecated.\n", None),
        ("Error: no matches for Id\nmore\n", Some("Error: no matches for Id")),
        ("E1127 02:50:09.5 28559 run.go:72] \"command failed\" err=\"no base\"\n", Some("no base")),
        ("E1127 02:50:09.5 28559 run.go:72] \"command failed\" err=<\n\tno git\n >\n", Some("no git")),
        ("a\u{1b}[2Jb\n", Some("a [2Jb")),
    ] {
        assert_eq!(first_line(errors).as_deref(), expected, "{errors:?}");
    }
    assert_eq!(first_line(&"x".repeat(9999)).map(|line| line.len()), Some(MAX_LINE));
}

#[test]
#[cfg(unix)]
fn tools_are_programs_of_absolute_folders_of_the_path() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str, mode| {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let name = |tool: Option<Tool>| tool.map(|tool| tool.name);
    let found = || Tools::of_path(folder.path().as_os_str());
    assert_eq!((name(found().kustomize), name(found().helm)), (None, None));
    place("helm", 0o644);
    place("kubectl", 0o755);
    assert_eq!((name(found().kustomize), name(found().helm)), (Some("kubectl kustomize"), None));
    place("kustomize", 0o755);
    place("helm", 0o755);
    assert_eq!(name(found().kustomize), Some("kustomize build"));
    assert_eq!(name(found().helm), Some("helm template"));
    let relative = Tools::of_path(OsStr::new(".:bin:"));
    assert_eq!((relative.kustomize, relative.helm), (None, None));
}
