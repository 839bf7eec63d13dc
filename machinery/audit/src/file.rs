//! A log file that is rotated by size, with the names that kube-apiserver gives to old files.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, NaiveDateTime, Utc};

/// Time in the names of old files, as `lumberjack` writes it.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// Limits on a log's files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    /// Size in bytes at which the file is renamed; 0 for never.
    pub(crate) size: u64,
    /// Number of old files that are kept; 0 for all.
    pub(crate) backups: usize,
    /// Age from which old files are removed; zero for none.
    pub(crate) age: Duration,
}

/// A file that is renamed when it is full.
///
/// After a failure, the next write opens and renames again. A line that was written in part is removed, or
/// else ends before the next one begins. A crate does this job for other logs, but none that was found
/// reports a file that cannot be opened, recovers from it, and removes old files by number and age.
#[derive(Debug)]
pub(crate) struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    open: Option<(File, u64)>,
    /// True when the file can end with a part of a line.
    torn: bool,
}

impl RotatedFile {
    /// Opens the file, for appending, and makes its folder. Only its owner can read it.
    pub(crate) fn open(path: PathBuf, rotation: Rotation) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let open = Some(append_to(&path)?);
        // A process that died can have left a part of a line.
        Ok(Self { path, rotation, open, torn: true })
    }

    /// Writes a line, to a new file when the present one would grow too large.
    pub(crate) fn write_line(&mut self, line: &[u8], now: DateTime<Utc>) -> io::Result<()> {
        let length = line.len() as u64;
        let full = |size: u64| self.rotation.size > 0 && size > 0 && size + length > self.rotation.size;
        // Taken out, so that a failure closes it.
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => append_to(&self.path)?,
        };
        if full(size) {
            drop(file);
            fs::rename(&self.path, self.free_name(now))?;
            (file, size) = append_to(&self.path)?;
            self.remove_old(now);
            self.torn = false;
        }
        if std::mem::take(&mut self.torn) && size > 0 && !ends_with_line(&self.path).unwrap_or(false) {
            self.torn = true;
            file.write_all(b"\n")?;
            self.torn = false;
            size += 1;
        }
        if let Err(error) = file.write_all(line) {
            self.torn = true;
            remove_end(&file, size);
            return Err(error);
        }
        self.open = Some((file, size + length));
        Ok(())
    }

    /// Returns the name for the full file: `audit.log` becomes `audit-2026-11-20T10-00-00.000.log`.
    fn free_name(&self, now: DateTime<Utc>) -> PathBuf {
        let (before, after) = self.affixes();
        let mut time = now;
        loop {
            let path = self.path.with_file_name(format!("{before}{}{after}", time.format(TIME)));
            if !path.exists() {
                return path;
            }
            time += Duration::from_millis(1);
        }
    }

    /// Returns what stands before and after the time in the names of old files.
    fn affixes(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let after = self.path.extension().map(|after| format!(".{}", after.to_string_lossy()));
        (format!("{}-", text(self.path.file_stem())), after.unwrap_or_default())
    }

    /// Removes the old files that are too many or too old. A failure leaves them until the next rotation.
    fn remove_old(&self, now: DateTime<Utc>) {
        let mut old = self.old_files();
        old.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        let oldest = (!self.rotation.age.is_zero()).then(|| now.naive_utc() - self.rotation.age);
        for (at, (time, path)) in old.iter().enumerate() {
            let surplus = self.rotation.backups > 0 && at >= self.rotation.backups;
            if (surplus || oldest.is_some_and(|oldest| *time < oldest))
                && let Err(error) = fs::remove_file(path)
            {
                tracing::warn!(file = %path.display(), %error, "old audit log cannot be removed");
            }
        }
    }

    fn old_files(&self) -> Vec<(NaiveDateTime, PathBuf)> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (before, after) = self.affixes();
        let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
        let time = |name: &str| {
            let time = name.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
            NaiveDateTime::parse_from_str(time, TIME).ok()
        };
        entries.filter_map(|entry| Some((time(entry.file_name().to_str()?)?, entry.path()))).collect()
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Removes what a failed write left after `size` bytes. A part remains when another process has cut the
/// file since.
fn remove_end(file: &File, size: u64) {
    if file.metadata().is_ok_and(|metadata| metadata.len() > size)
        && let Err(error) = file.set_len(size)
    {
        tracing::warn!(%error, "the audit log keeps a part of an event");
    }
}

/// Returns true when a file ends with a whole line.
fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Rotation = Rotation { size: 10, backups: 2, age: Duration::ZERO };

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).expect("a time")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/audit.log");
        let mut file = RotatedFile::open(path.clone(), SMALL).expect("a file");
        for second in 0..5 {
            file.write_line(format!("line {second}..\n").as_bytes(), at(second)).expect("written");
        }
        let kept = ["audit-1970-01-01T00-00-03.000.log", "audit-1970-01-01T00-00-04.000.log", "audit.log"];
        assert_eq!(names(path.parent().expect("a folder")), kept);
        assert_eq!(fs::read_to_string(&path).expect("text"), "line 4..\n");
    }

    #[test]
    fn files_of_the_same_moment_do_not_replace_each_other_and_old_ones_go_by_age() {
        let folder = tempfile::tempdir().expect("a folder");
        let rotation = Rotation { size: 1, backups: 0, age: Duration::from_hours(24) };
        let mut file = RotatedFile::open(folder.path().join("audit"), rotation).expect("a file");
        for _ in 0..3 {
            file.write_line(b"line\n", at(0)).expect("written");
        }
        let names_now = names(folder.path());
        assert_eq!(names_now, ["audit", "audit-1970-01-01T00-00-00.000", "audit-1970-01-01T00-00-00.001"]);
        file.write_line(b"line\n", at(90_000)).expect("written");
        assert_eq!(names(folder.path()), ["audit", "audit-1970-01-02T01-00-00.000"]);
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_opened_by_the_next_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = folder.path().join("logs");
        let mut file = RotatedFile::open(logs.join("audit.log"), SMALL).expect("a file");
        file.write_line(b"line one\n", at(0)).expect("written");
        fs::remove_dir_all(&logs).expect("removed");
        file.write_line(b"line two\n", at(1)).expect_err("nothing to rename");
        file.write_line(b"line three\n", at(2)).expect_err("no folder");
        fs::create_dir(&logs).expect("a folder");
        file.write_line(b"line four\n", at(3)).expect("written");
        assert_eq!(names(&logs), ["audit.log"]);
    }

    /// Returns the maximum size of a file in that folder.
    fn largest_file(folder: &Path) -> u64 {
        let file = File::create(folder.join("sparse")).expect("a file");
        let (mut possible, mut impossible) = (0, i64::MAX as u64);
        while impossible - possible > 1 {
            let middle = possible + (impossible - possible) / 2;
            if file.set_len(middle).is_ok() { possible = middle } else { impossible = middle }
        }
        possible
    }

    #[test]
    fn a_line_that_was_written_in_part_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let nearly_full = largest_file(folder.path()) - 5;
        File::create(&path).expect("a file").set_len(nearly_full).expect("a sparse file");
        let never = Rotation { size: 0, ..SMALL };
        let mut file = RotatedFile::open(path.clone(), never).expect("a file");
        file.write_line(b"a line of more than five bytes\n", at(0)).expect_err("no room for all of it");
        assert_eq!(fs::metadata(&path).expect("a file").len(), nearly_full + 1);
        file.write_line(b"abc\n", at(1)).expect("room");
    }

    #[test]
    fn a_line_after_one_that_cannot_be_removed_begins_on_a_line_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let nearly_full = largest_file(folder.path()) - 5;
        let sparse = File::create(&path).expect("a file");
        sparse.set_len(nearly_full).expect("a sparse file");
        let never = Rotation { size: 0, ..SMALL };
        let mut file = RotatedFile::open(path.clone(), never).expect("a file");
        // As a tool does that copies the log and cuts it.
        sparse.set_len(nearly_full - 5).expect("shorter");
        file.write_line(b"a line of more than ten bytes\n", at(0)).expect_err("no room for all of it");
        file.write_line(b"m\n", at(1)).expect("room");
        let mut end = String::new();
        let mut written = File::open(&path).expect("a file");
        written.seek(SeekFrom::End(-8)).expect("an end");
        written.read_to_string(&mut end).expect("text");
        assert_eq!(end, "a lin\nm\n");
    }
}
