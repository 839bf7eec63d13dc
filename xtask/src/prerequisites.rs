//! Prerequisites beside Rust: installed where the system's package manager can, else named.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::command::{command, output, run};

/// A program that is needed, how to see that it is there, and the Debian package that brings it.
struct Program {
    name: &'static str,
    check: &'static [&'static str],
    package: Option<&'static str>,
    needed_for: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "go",
        check: &["version"],
        package: None,
        needed_for: "building Kubernetes for the tests (1.26 or newer, from go.dev or a package)",
    },
    Program { name: "cc", check: &["--version"], package: Some("gcc libc6-dev"), needed_for: "linking" },
    Program {
        name: "python3",
        check: &["--version"],
        package: Some("python3"),
        needed_for: "the example app that answers over HTTP",
    },
];

/// Programs that only the tests need.
const OF_TESTS: &[Program] = &[
    Program {
        name: "javac",
        check: &["--version"],
        package: Some("openjdk-17-jdk-headless"),
        needed_for: "the same example app in Java",
    },
    Program {
        name: "node",
        check: &["--version"],
        package: Some("nodejs"),
        needed_for: "the same example app in TypeScript",
    },
    Program {
        name: "npm",
        check: &["--version"],
        package: Some("npm"),
        needed_for: "the TypeScript compiler of that example, and the official JavaScript client",
    },
    Program {
        name: "python3",
        check: &["-c", "import ensurepip, venv"],
        package: Some("python3-venv"),
        needed_for: "the environment of the official Python client",
    },
    Program {
        name: "curl",
        check: &["--version"],
        package: Some("curl"),
        needed_for: "the commands of the page about the wire protocol",
    },
    Program { name: "jq", check: &["--version"], package: Some("jq"), needed_for: "the same commands" },
    Program {
        name: "faketime",
        check: &["--version"],
        package: Some("faketime"),
        needed_for: "the tests in which a clock is wrong",
    },
];

/// Programs that only fuzzing needs.
const OF_FUZZING: &[Program] =
    &[Program { name: "c++", check: &["--version"], package: Some("g++"), needed_for: "building libFuzzer" }];

/// Sees to it that every program is there.
///
/// # Errors
///
/// Names each program that is missing and could not be installed.
pub(crate) fn ensure() -> anyhow::Result<()> {
    install_missing(PROGRAMS)
}

/// The same with what only the tests need, which end with the fuzzers.
///
/// # Errors
///
/// As for [`ensure`].
pub(crate) fn ensure_for_tests() -> anyhow::Result<()> {
    ensure()?;
    install_missing(OF_TESTS)?;
    ensure_for_fuzzing()
}

/// Sees to it that what fuzzing needs is there.
///
/// # Errors
///
/// As for [`ensure`].
pub(crate) fn ensure_for_fuzzing() -> anyhow::Result<()> {
    install_missing(OF_FUZZING)
}

fn install_missing(programs: &[Program]) -> anyhow::Result<()> {
    for program in programs {
        if present(program) || built_already(program) {
            continue;
        }
        match program.package {
            Some(package) if succeeds("apt-get", &["--version"]) => {
                eprintln!(
                    "installing {package} (apt-get): {} is needed for {}",
                    program.name, program.needed_for
                );
                install(package)?;
            }
            _ => bail!("{} is needed for {}: please install it", program.name, program.needed_for),
        }
    }
    Ok(())
}

fn present(program: &Program) -> bool {
    succeeds(program.name, program.check)
}

fn succeeds(name: &str, arguments: &[&str]) -> bool {
    let status = Command::new(name).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Go is not needed where the Kubernetes binaries are given.
fn built_already(program: &Program) -> bool {
    program.name == "go" && std::env::var_os("CONTROLPLANE_BIN").is_some()
}

fn install(packages: &str) -> anyhow::Result<()> {
    let root = output(command("id")?.arg("-u"))? == "0";
    let apt = |arguments: &[&str]| -> anyhow::Result<()> {
        let mut apt = if !root && succeeds("sudo", &["--version"]) {
            let mut sudo = command("sudo")?;
            sudo.arg("apt-get");
            sudo
        } else {
            command("apt-get")?
        };
        run(apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages.split(' '));
    apt(&arguments)
}
