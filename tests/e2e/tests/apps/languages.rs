//! The languages that the guide has a handler in, and what makes a program of each.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use controlplane::output_of;

/// The compiler and Node's types, at versions that fit Node 18 and newer.
const TYPESCRIPT: [&str; 2] = ["typescript@5.9.3", "@types/node@20.19.8"];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    Python,
    Go,
    Java,
    TypeScript,
}

impl Language {
    pub(crate) const ALL: [Self; 4] = [Self::Python, Self::Go, Self::Java, Self::TypeScript];

    /// The words of the command that runs the guide's handler; what has to be built is built into `folder`.
    pub(crate) async fn build(self, folder: &Path) -> Vec<PathBuf> {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/http");
        match self {
            Self::Python => vec!["python3".into(), guide.join("handler.py")],
            Self::Go => {
                let built = folder.join("handler");
                let mut go = Command::new("go");
                go.arg("build").arg("-o").arg(&built).arg(guide.join("handler.go"));
                run(go).await;
                vec![built]
            }
            // From source: the JDK compiles a single file in memory.
            Self::Java => vec!["java".into(), guide.join("Handler.java")],
            Self::TypeScript => {
                let modules = typescript().await.join("node_modules");
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

async fn run(command: Command) {
    let said = format!("{command:?}");
    let output = output_of("a compiler", command).await.unwrap();
    assert!(output.success(), "{said}: {output:?}");
}

/// The folder where npm installed the compiler: once, in the user's cache.
async fn typescript() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cache"));
    let folder = cache.join("evacuation").join(TYPESCRIPT.join("-").replace('/', "-"));
    if !folder.join("complete").exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(&folder)
            .args(TYPESCRIPT);
        run(npm).await;
        std::fs::write(folder.join("complete"), "").unwrap();
    }
    folder
}
