//! `evacuation-agent install`: copies the program for the app's container.

use std::{fs, io, path::Path};

/// Copies this program to `to`, in one step for every reader.
pub(crate) fn install(to: &Path) -> io::Result<()> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    // The copy has the permissions of the original: it can be run.
    fs::copy(std::env::current_exe()?, &part)?;
    fs::rename(&part, to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_copy_can_be_run_and_replaces_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("evacuation-agent");
        fs::write(&to, "an earlier one").unwrap();
        install(&to).unwrap();
        let copy = fs::metadata(&to).unwrap();
        assert_eq!(copy.len(), fs::metadata(std::env::current_exe().unwrap()).unwrap().len());
        assert_eq!(copy.permissions().mode() & 0o111, 0o111);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
