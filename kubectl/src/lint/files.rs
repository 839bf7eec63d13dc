//! The files that are checked.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// Maximum size of one file, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the files that the flags name. Of a directory these are the manifests in it, in the order of their
/// names.
pub(super) fn manifests(named: &[PathBuf], recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            add_directory(path, recursive, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn add_directory(directory: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let listed = || format!("directory {} cannot be listed", directory.display());
    let entries: Result<Vec<_>, _> = fs::read_dir(directory).with_context(listed)?.collect();
    let mut entries = entries.with_context(listed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to a directory is not followed: it can lead back.
        if entry.file_type().with_context(listed)?.is_dir() {
            if recursive {
                add_directory(&path, recursive, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a file, or standard input for `-`.
pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let size = if file.as_os_str() == "-" {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|open| open.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    let size = size.context("the file cannot be read")?;
    ensure!(
        u64::try_from(size).is_ok_and(|size| size <= MAX_BYTES),
        "the file is larger than {MAX_BYTES} bytes"
    );
    Ok(text)
}
