use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// A temporary folder, removed when it is dropped or its owner dies.
///
/// It stays, and its path is printed, when it is dropped by a panic, after [`Folder::keep`], or when
/// `CONTROLPLANE_KEEP` is set.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: AtomicBool,
}

impl Folder {
    /// Makes an empty folder among the system's temporary files; `prefix` is the beginning of its name.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be made, or no shell can be started to watch over it.
    pub fn new(prefix: &str) -> Result<Self> {
        let parent = std::env::temp_dir();
        let path = tempfile::Builder::new()
            .prefix(&format!("{prefix}-"))
            .tempdir_in(&parent)
            .map_err(Error::file("create a folder in", parent))?
            .keep();
        let folder = Self { path, keep: AtomicBool::new(false) };
        reaper::watch_folder(&folder.path).map_err(Error::file("watch over", &folder.path))?;
        if std::env::var_os("CONTROLPLANE_KEEP").is_some_and(|value| !value.is_empty()) {
            folder.keep();
        }
        Ok(folder)
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is when this value is dropped or the process dies.
    pub fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
        reaper::forget_folder(&self.path);
    }

    /// Returns whether it stays.
    pub fn is_kept(&self) -> bool {
        self.keep.load(Ordering::Relaxed)
    }

    /// Makes a folder inside, if it is not there.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be made.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_kept() || std::thread::panicking() {
            self.keep();
            eprintln!("kept: {}", self.path.display());
        } else if std::fs::remove_dir_all(&self.path).is_ok() {
            reaper::forget_folder(&self.path);
        }
        // What could not be removed is left to the reaper, which tries again at the end.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner() {
        let folder = Folder::new("test").unwrap();
        let path = folder.path().to_owned();
        folder.subfolder("a/b").unwrap();
        assert!(path.join("a/b").is_dir());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_folder_of_a_test_that_panicked_stays() {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let folder = Folder::new("test").unwrap();
            sender.send(folder.path().to_owned()).unwrap();
            panic!("a test fails");
        })
        .join()
        .unwrap_err();
        let path = receiver.recv().unwrap();
        assert!(path.is_dir());
        std::fs::remove_dir_all(path).unwrap();
    }
}
