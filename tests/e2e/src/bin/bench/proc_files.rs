//! Files of `/proc` that show the CPU time and the memory of a process.

use std::{fs, path::Path};

use anyhow::Context;

/// Number of ticks in a second. Linux counts in this unit for user space on every machine.
const TICKS_A_SECOND: f64 = 100.0;

/// `/proc/PID/stat`: the part that the benchmarks need.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stat {
    /// Name of the program, its first 15 characters.
    pub(crate) name: String,
    /// Number of the parent.
    pub(crate) parent: u32,
    /// CPU time of the process, in seconds.
    pub(crate) cpu: f64,
    /// CPU time of its children that ended and were waited for, in seconds.
    pub(crate) cpu_of_ended_children: f64,
}

impl Stat {
    /// Reads that of a process.
    ///
    /// # Errors
    ///
    /// Fails when the process is gone.
    pub(crate) fn of(process: &str) -> anyhow::Result<Self> {
        let text = read(process, "stat")?;
        Self::parse(&text).with_context(|| format!("/proc/{process}/stat cannot be read: {text}"))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name can hold spaces and parentheses.
        let (before, rest) = text.rsplit_once(") ")?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let seconds = |from: usize| {
            let ticks = fields.get(from..from + 2)?.iter().map(|ticks| ticks.parse::<f64>().ok());
            Some(ticks.sum::<Option<f64>>()? / TICKS_A_SECOND)
        };
        let parent = fields.get(1)?.parse().ok()?;
        Some(Self { name, parent, cpu: seconds(11)?, cpu_of_ended_children: seconds(13)? })
    }
}

/// Returns the resident memory of a process in KiB.
///
/// # Errors
///
/// Fails when the process is gone.
pub(crate) fn resident(process: &str) -> anyhow::Result<f64> {
    kib(&read(process, "status")?, "VmRSS:").with_context(|| format!("process {process} shows no memory"))
}

/// Returns the resident memory of a process in KiB, with its share of the pages that several processes map.
///
/// # Errors
///
/// Fails when the process is gone.
pub(crate) fn proportional(process: &str) -> anyhow::Result<f64> {
    kib(&read(process, "smaps_rollup")?, "Pss:").with_context(|| format!("process {process} shows no memory"))
}

/// Returns the numbers of the children of this process whose names begin so.
pub(crate) fn children(name: &str) -> Vec<String> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let numbers = numbers.filter(|number| number.starts_with(|digit: char| digit.is_ascii_digit()));
    // A process can be gone by now.
    let is_child = |number: &String| {
        Stat::of(number).is_ok_and(|stat| stat.parent == own && stat.name.starts_with(name))
    };
    numbers.filter(is_child).collect()
}

fn read(process: &str, file: &str) -> anyhow::Result<String> {
    let path = Path::new("/proc").join(process).join(file);
    fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
}

/// The value of a line such as `VmRSS:     1234 kB`.
fn kib(text: &str, field: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_program_is_called() {
        let text = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 30 20 20 0 5 0 100 1 2";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            stat,
            Stat { name: "a (b) c".to_owned(), parent: 7, cpu: 3.0, cpu_of_ended_children: 0.5 }
        );
        assert_eq!(Stat::parse("42 (a) S 7 42"), None);
    }

    #[test]
    fn the_memory_of_this_process_is_read() {
        assert!(resident("self").unwrap() > 100.0);
        assert!(proportional("self").unwrap() > 100.0);
        assert_eq!(kib("VmPeak:  9 kB\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234.0));
        assert_eq!(kib("VmPeak:  9 kB\n", "VmRSS:"), None);
    }
}
