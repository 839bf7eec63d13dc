//! The languages that the guide has a handler and a watcher in, and what makes a program of each.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use controlplane::output_of;
use evacuation_e2e::{Packages, root};

/// The compiler and Node's types, at versions that fit Node 18 and newer.
const TYPESCRIPT: Packages = Packages {
    name: "typescript",
    files: &[],
    version: "npm --version",
    install: "npm install --no-audit --no-fund --ignore-scripts --prefix . \
         typescript@5.9.3 @types/node@20.19.8",
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    Python,
    Go,
    Java,
    TypeScript,
}

impl Language {
    pub(crate) const ALL: [Self; 4] = [Self::Python, Self::Go, Self::Java, Self::TypeScript];

    /// The words of the command that runs the guide's watcher. JavaScript takes the place of TypeScript.
    pub(crate) async fn watcher(self, folder: &Path) -> Vec<PathBuf> {
        let guide = root().join("docs/guide/watch");
        match self {
            Self::Python => vec!["python3".into(), guide.join("watcher.py")],
            Self::Go => vec![go(folder, &guide.join("watcher.go")).await],
            Self::Java => vec!["java".into(), guide.join("Watcher.java")],
            Self::TypeScript => vec!["node".into(), guide.join("watcher.mjs")],
        }
    }

    /// The words of the command that runs the guide's handler; what has to be built is built into `folder`.
    pub(crate) async fn build(self, folder: &Path) -> Vec<PathBuf> {
        let guide = root().join("docs/guide/http");
        match self {
            Self::Python => vec!["python3".into(), guide.join("handler.py")],
            Self::Go => vec![go(folder, &guide.join("handler.go")).await],
            // From source: the JDK compiles a single file in memory.
            Self::Java => vec!["java".into(), guide.join("Handler.java")],
            Self::TypeScript => {
                let modules = TYPESCRIPT.folder().await.unwrap().join("node_modules");
                let mut compile = Command::new("node");
                compile
                    .arg(modules.join("typescript/bin/tsc"))
                    .args(["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"])
                    .arg("--typeRoots")
                    .arg(modules.join("@types"))
                    .arg("--outDir")
                    .arg(folder)
                    .arg(guide.join("handler.ts"));
                run(compile).await;
                vec!["node".into(), folder.join("handler.js")]
            }
        }
    }
}

/// Builds a program of one file into the folder.
async fn go(folder: &Path, file: &Path) -> PathBuf {
    let built = folder.join("program");
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(&built).arg(file);
    run(go).await;
    built
}

async fn run(command: Command) {
    let said = format!("{command:?}");
    let output = output_of("a compiler", command).await.unwrap();
    assert!(output.success(), "{said}: {output:?}");
}
