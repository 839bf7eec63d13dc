//! Memory of what a check has passed, in the user's cache folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use sha2::{Digest, Sha256};

/// Digest of the files that a check reads, beside the digest that it passed last.
#[derive(Debug)]
pub(crate) struct Passed {
    file: PathBuf,
    digest: String,
}

impl Passed {
    /// Reads the files below `root` whose names `reads` accepts. `version` is that of the check.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be read.
    pub(crate) fn of(
        check: &str,
        version: &str,
        root: &Path,
        cache: &Path,
        reads: impl Fn(&Path) -> bool,
    ) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        collect(root, &reads, &mut files).with_context(|| format!("cannot read {}", root.display()))?;
        files.sort();
        let mut digest = Sha256::new_with_prefix(version);
        for file in files {
            let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            // The lengths keep a name apart from the bytes beside it.
            digest.update([name.len().to_le_bytes(), bytes.len().to_le_bytes()].concat());
            digest.update(name.as_bytes());
            digest.update(bytes);
        }
        Ok(Self { file: cache.join("passed").join(check), digest: format!("{:x}", digest.finalize()) })
    }

    /// Returns true when the check passed the same files last time.
    pub(crate) fn is_known(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|known| known == self.digest)
    }

    /// Remembers that the check passed.
    ///
    /// # Errors
    ///
    /// Fails when the cache folder cannot be written.
    pub(crate) fn remember(&self) -> anyhow::Result<()> {
        let written = self.file.parent().map_or(Ok(()), fs::create_dir_all);
        let written = written.and_then(|()| fs::write(&self.file, &self.digest));
        written.with_context(|| format!("cannot write {}", self.file.display()))
    }
}

fn collect(folder: &Path, reads: &impl Fn(&Path) -> bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && !["target", ".git"].iter().any(|name| path.ends_with(name)) {
            collect(&path, reads, files)?;
        } else if kind.is_file() && reads(&path) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_known_until_something_that_it_reads_or_its_version_changes() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("xtask-passed-{}", std::process::id()));
        let (root, cache) = (folder.join("root"), folder.join("cache"));
        fs::create_dir_all(root.join("target"))?;
        let passed = |version: &str| {
            let reads = |path: &Path| path.extension().is_some_and(|extension| extension == "toml");
            Passed::of("deny", version, &root, &cache, reads)
        };
        fs::write(root.join("a.toml"), "x")?;
        assert!(!passed("1")?.is_known());
        passed("1")?.remember()?;
        fs::write(root.join("a.rs"), "not read")?;
        fs::write(root.join("target/b.toml"), "not read either")?;
        assert!(passed("1")?.is_known());
        assert!(!passed("2")?.is_known());
        fs::write(root.join("b.toml"), "")?;
        assert!(!passed("1")?.is_known());
        fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
