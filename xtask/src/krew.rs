//! `cargo xtask krew`
//!
//! Builds the archives of the kubectl plugins for this platform, and writes krew's manifests beside them. A
//! manifest names every archive of this version in the folder. So a release copies the archives of the other
//! platforms there and runs the command once more.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::{
    build::target_folder,
    command::{cargo, command, root, run},
};

/// The plugins and their programs.
const PLUGINS: [(&str, &str); 2] =
    [("evacuate", "kubectl-evacuate"), ("create-evacuation", "kubectl-create-evacuation")];
/// The file that each archive holds beside the program.
const LICENSE: &str = "LICENSE";

/// Build the archives of the kubectl plugins for this platform, and krew's manifests in target/krew.
#[derive(Args)]
pub(crate) struct Krew {
    /// The address of the folder from which the archives will be downloaded.
    #[arg(long, value_name = "URL")]
    url: String,
}

impl Krew {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (os, arch) = platform()?;
        let target = target_folder()?;
        run(cargo()?.args(["build", "--release", "--package", "kubectl-evacuate", "--bins"]))?;
        let folder = target.join("krew");
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        for (plugin, program) in PLUGINS {
            let program = format!("{program}{}", std::env::consts::EXE_SUFFIX);
            let archive = folder.join(format!("{plugin}-{version}-{os}-{arch}.tar.gz"));
            pack(&archive, &target.join("release"), &program)?;
            let found = archives(&folder, &format!("{plugin}-{version}-"))?;
            let template = root()?.join("deploy/krew").join(format!("{plugin}.yaml"));
            let template = fs::read_to_string(&template)
                .with_context(|| format!("{} cannot be read", template.display()))?;
            let manifest = folder.join(format!("{plugin}.yaml"));
            let text =
                manifest_of(&template, version, &self.url, PLUGINS.map(|(_, program)| program), &found)?;
            fs::write(&manifest, text)
                .with_context(|| format!("{} cannot be written", manifest.display()))?;
            println!("{}", manifest.display());
        }
        Ok(())
    }
}

/// An archive of one platform.
#[derive(Debug)]
struct Archive {
    file: String,
    os: String,
    arch: String,
    sha256: String,
}

/// Returns the platform in krew's words.
fn platform() -> anyhow::Result<(&'static str, &'static str)> {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os @ ("linux" | "windows") => os,
        other => bail!("krew knows no system {other}"),
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("krew knows no processor {other}"),
    };
    Ok((os, arch))
}

fn pack(archive: &Path, programs: &Path, program: &str) -> anyhow::Result<()> {
    let mut tar = command("tar")?;
    tar.arg("-czf").arg(archive).arg("-C").arg(programs).arg(program).arg("-C").arg(root()?).arg(LICENSE);
    run(&mut tar)
}

/// Returns the archives of one plugin and version, by name.
fn archives(folder: &Path, prefix: &str) -> anyhow::Result<Vec<Archive>> {
    let files = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut files: Vec<PathBuf> = files.map(|file| Ok(file?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let platform = file.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".tar.gz"));
        let Some((os, arch)) = platform.and_then(|platform| platform.split_once('-')) else { continue };
        let bytes = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let sha256 = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
            // Writing to a text does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        found.push(Archive { sha256, os: os.to_owned(), arch: arch.to_owned(), file });
    }
    Ok(found)
}

/// Returns a manifest: the template with the version and the platforms.
fn manifest_of(
    template: &str,
    version: &str,
    url: &str,
    programs: [&str; 2],
    archives: &[Archive],
) -> anyhow::Result<String> {
    let (head, rest) = template.split_once("\nspec:\n").context("the template has a spec")?;
    let name = head.lines().find_map(|line| line.trim().strip_prefix("name: ")).context("it has a name")?;
    let program = format!("kubectl-{name}");
    if !programs.contains(&program.as_str()) {
        bail!("the template of {name} names no program of the package");
    }
    let head: String = head.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut text = format!("{head}\nspec:\n  version: {version}\n{}\n  platforms:\n", rest.trim_end());
    for Archive { file, os, arch, sha256 } in archives {
        let suffix = if os == "windows" { ".exe" } else { "" };
        let url = url.trim_end_matches('/');
        let _ = write!(
            text,
            "  - selector: {{matchLabels: {{os: {os}, arch: {arch}}}}}
    uri: {url}/{file}
    sha256: {sha256}
    bin: {program}{suffix}
    files:
    - {{from: {program}{suffix}, to: .}}
    - {{from: {LICENSE}, to: .}}
"
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_the_version_and_each_archive_with_its_checksum() {
        let template = "# note\napiVersion: a\nmetadata:\n  name: evacuate\nspec:\n  shortDescription: x\n";
        let archive = |os: &str| Archive {
            file: format!("evacuate-v1-{os}-amd64.tar.gz"),
            os: os.to_owned(),
            arch: "amd64".to_owned(),
            sha256: "0a".to_owned(),
        };
        let programs = PLUGINS.map(|(_, program)| program);
        let archives = [archive("linux"), archive("windows")];
        let text = manifest_of(template, "v1", "https://a.b/c/", programs, &archives).unwrap();
        for part in [
            "apiVersion: a\nmetadata:\n  name: evacuate\nspec:\n  version: v1\n  shortDescription: x\n  platforms:\n",
            "{os: linux, arch: amd64}",
            "uri: https://a.b/c/evacuate-v1-linux-amd64.tar.gz\n    sha256: 0a\n    bin: kubectl-evacuate\n",
            "bin: kubectl-evacuate.exe",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(manifest_of(&template.replace("evacuate", "other"), "v1", "u", programs, &[]).is_err());
    }

    #[test]
    fn an_archive_holds_the_program_and_the_licence_and_is_found_with_its_checksum() {
        let folder = target_folder().unwrap().join(format!("krew-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("kubectl-evacuate"), "a program").unwrap();
        pack(&folder.join("evacuate-v1-linux-amd64.tar.gz"), &folder, "kubectl-evacuate").unwrap();
        fs::write(folder.join("evacuate-v0-linux-amd64.tar.gz"), "another version").unwrap();
        let found = archives(&folder, "evacuate-v1-").unwrap();
        let listed = command("tar").unwrap().arg("-tzf").arg(folder.join(&found[0].file)).output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(String::from_utf8_lossy(&listed.stdout), "kubectl-evacuate\nLICENSE\n");
        let [archive] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((archive.os.as_str(), archive.arch.as_str()), ("linux", "amd64"));
        assert_eq!(archive.sha256.len(), 64);
    }

    #[test]
    fn the_templates_are_of_programs_that_exist() {
        for (plugin, _) in PLUGINS {
            let file = root().unwrap().join(format!("deploy/krew/{plugin}.yaml"));
            let programs = PLUGINS.map(|(_, program)| program);
            let text = manifest_of(&fs::read_to_string(file).unwrap(), "v1", "u", programs, &[]).unwrap();
            assert!(text.contains("shortDescription: ") && !text.contains('#'), "{text}");
        }
    }
}
