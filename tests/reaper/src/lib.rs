//! A shell that outlives its owner by a moment, to kill processes and remove folders for it.
//!
//! It reads what to watch from a pipe. The pipe closes when the owner is gone, however that happened; then it
//! acts. `PR_SET_PDEATHSIG` would need unsafe code and does not remove files.
//!
//! Control planes and test runs use it. It depends on nothing, so that `cargo xtask` is built in seconds.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// It ignores Ctrl-C, which the terminal sends to the whole process group. Folders are removed
/// twice, for a process that was just killed may still finish a write.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
nl='
'
pids=' '
folders=$nl
while IFS= read -r line; do
  value=${line#* }
  case $line in
    'process '*) pids="$pids$value " ;;
    'ended '*)
      case $pids in *" $value "*) pids="${pids%%" $value "*} ${pids#*" $value "}" ;; esac ;;
    'folder '*) folders="$folders$value$nl" ;;
    'kept '*)
      case $folders in *"$nl$value$nl"*) folders="${folders%%"$nl$value$nl"*}$nl${folders#*"$nl$value$nl"}" ;; esac ;;
  esac
done
for pid in $pids; do kill -s KILL -- "$pid"; done
set -f
IFS=$nl
rm -rf $folders && exit
sleep 1
rm -rf $folders
"#;

static REAPER: Mutex<Option<(ChildStdin, Child)>> = Mutex::new(None);

/// Kills this process when the owner is gone.
///
/// # Errors
///
/// Fails when the shell cannot be started, or was killed.
pub fn watch_process(pid: u32) -> io::Result<()> {
    tell(&format!("process {pid}"))
}

/// Leaves this process alone: it has ended, and its number may soon be another's, or it is to live on.
pub fn forget_process(pid: u32) {
    // When the reaper cannot be told it is gone, and has nothing to forget.
    tell(&format!("ended {pid}")).ok();
}

/// Kills all processes of this group when the owner is gone.
///
/// # Errors
///
/// As for [`watch_process`].
pub fn watch_group(leader: u32) -> io::Result<()> {
    tell(&format!("process -{leader}"))
}

/// Leaves this group alone.
pub fn forget_group(leader: u32) {
    tell(&format!("ended -{leader}")).ok();
}

/// Removes this folder when the owner is gone.
///
/// # Errors
///
/// As for [`watch_process`].
pub fn watch_folder(path: &Path) -> io::Result<()> {
    tell(&format!("folder {}", path.display()))
}

/// Leaves this folder alone: it is to stay, or is gone already.
pub fn forget_folder(path: &Path) {
    tell(&format!("kept {}", path.display())).ok();
}

fn tell(line: &str) -> io::Result<()> {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    let (stdin, _) = match &mut *reaper {
        Some(running) => running,
        none => none.insert(start()?),
    };
    stdin.write_all(format!("{line}\n").as_bytes())
}

fn start() -> io::Result<(ChildStdin, Child)> {
    let mut child = Command::new("sh")
        .args(["-c", SCRIPT, "reaper"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((stdin, child))
}
