//! Commands on a terminal, recorded and drawn.
//!
//! util-linux' script makes the terminal. The output of the commands is kept with its times, read by a
//! [`Terminal`], and drawn as SVG.

mod svg;
mod terminal;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use tokio::io::AsyncReadExt;

pub(crate) use svg::svg;
use terminal::{Row, Terminal};

/// Columns of the terminal.
pub(crate) const COLUMNS: usize = 104;
/// Rows of the terminal.
const ROWS: usize = 30;
/// Minimum time that a picture is shown.
const SHORTEST: Duration = Duration::from_millis(400);
/// Time for which the end of a command's output stays, so that it can be read.
const READING: Duration = Duration::from_secs(8);

/// State of a terminal, and the time from which it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) from: Duration,
    pub(crate) rows: Vec<Row>,
}

/// End of a command.
#[derive(Debug)]
pub(crate) struct Shown {
    /// Exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// Everything that the command wrote.
    pub(crate) text: String,
}

/// Commands of one terminal and everything that they wrote, with the time of each part.
///
/// The time between two commands is [`READING`], however long it was.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    parts: Vec<(Duration, String)>,
}

impl Recording {
    /// Runs a command on the terminal to its end, below a prompt with the words `typed`.
    ///
    /// # Errors
    ///
    /// There is no script(1), the command does not start, or it writes nothing.
    pub(crate) async fn run(
        &mut self,
        typed: &str,
        command: &std::process::Command,
    ) -> anyhow::Result<Shown> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        let line = format!("stty rows {ROWS} cols {COLUMNS}; exec {}", words.join(" "));
        let mut script = tokio::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color").env("CLICOLOR_FORCE", "1");
        for (key, value) in command.get_envs() {
            script.env(key, value.unwrap_or_default());
        }
        script.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            script.spawn().context("script(1) of util-linux makes the terminal, and did not start")?;
        let mut output = child.stdout.take().context("script has an output")?;
        let (from, began) = (self.prompt(typed), Instant::now());
        let (mut written, mut rest, mut buffer) = (String::new(), Vec::new(), [0_u8; 8192]);
        loop {
            let read = output.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            rest.extend_from_slice(buffer.get(..read).unwrap_or_default());
            // A character can be cut in two.
            let whole = match std::str::from_utf8(&rest) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let text: Vec<u8> = rest.drain(..whole).collect();
            let text = String::from_utf8_lossy(&text).into_owned();
            written.push_str(&text);
            self.parts.push((from + began.elapsed(), text));
        }
        let code = child.wait().await?.code();
        ensure!(!written.is_empty(), "{typed} wrote nothing");
        Ok(Shown { code, text: written })
    }

    /// Adds a prompt with a command. Returns its time.
    fn prompt(&mut self, typed: &str) -> Duration {
        let from = self.parts.last().map(|(last, _)| *last + READING).unwrap_or_default();
        self.parts.push((from, format!("\u{1b}[32m$\u{1b}[0m \u{1b}[1m{typed}\u{1b}[0m\r\n")));
        from
    }

    /// Returns the pictures of the terminal. The name of the namespace, which is another one in each run, is
    /// replaced before it is written, so that lines are as long as with the new name.
    pub(crate) fn pictures(&self, (namespace, name): (&str, &str)) -> Vec<Picture> {
        let mut terminal = Terminal::default();
        let mut pictures: Vec<Picture> = Vec::new();
        let mut begun = String::new();
        for (time, text) in &self.parts {
            let text = (std::mem::take(&mut begun) + text).replace(namespace, name);
            // The name can be cut in two.
            let (text, rest) = text.split_at(text.len().saturating_sub(overlap(&text, namespace)));
            begun.push_str(rest);
            terminal.write(text);
            let rows = terminal.rows();
            match pictures.last_mut() {
                Some(last) if *time < last.from + SHORTEST => last.rows = rows,
                Some(last) if last.rows == rows => {}
                _ => pictures.push(Picture { from: *time, rows }),
            }
        }
        pictures
    }
}

/// Returns the number of bytes at the end of a text with which the name begins.
fn overlap(text: &str, name: &str) -> usize {
    let mut lengths = name.char_indices().map(|(length, _)| length).rev();
    lengths.find(|length| name.get(..*length).is_some_and(|begin| text.ends_with(begin))).unwrap_or_default()
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(picture: &Picture) -> Vec<String> {
        let text = |row: &Row| row.iter().map(|span| span.text.as_str()).collect::<Vec<_>>().join(" ");
        picture.rows.iter().map(text).collect()
    }

    /// Adds a command with what it wrote, each with the milliseconds since its prompt.
    fn add(recording: &mut Recording, typed: &str, written: &[(u64, &str)]) {
        let from = recording.prompt(typed);
        let part = |(millis, text): &(u64, &str)| (from + Duration::from_millis(*millis), (*text).to_owned());
        recording.parts.extend(written.iter().map(part));
    }

    #[test]
    fn a_picture_stays_for_a_while_and_names_the_namespace_as_told() {
        let mut recording = Recording::default();
        let written = [(100, "a\r\n"), (300, "b\r\n"), (900, "\u{1b}[31mshop-x1/c\u{1b}[0m d\r\n")];
        add(&mut recording, "ls", &written);
        let pictures = recording.pictures(("shop-x1", "shop"));
        let from: Vec<_> = pictures.iter().map(|picture| picture.from.as_millis()).collect();
        assert_eq!(from, [0, 900]);
        let last: Vec<_> = pictures[1].rows[3].iter().map(|span| (span.column, span.text.as_str())).collect();
        assert_eq!(last, [(0, "shop/c"), (7, "d")]);
    }

    #[test]
    fn lines_are_as_long_as_with_the_new_name_which_can_arrive_in_two_parts() {
        let mut recording = Recording::default();
        let rest = "x".repeat(COLUMNS - "shop/".len());
        add(
            &mut recording,
            "ls",
            &[(500, "shop-"), (1000, &format!("x1/{rest}\r\nshop")), (1500, "ping\r\n")],
        );
        let pictures = recording.pictures(("shop-x1", "shop"));
        let line = format!("shop/{rest}");
        assert_eq!(texts(pictures.last().unwrap()), ["$ ls", &line, "shopping"]);
    }

    #[test]
    fn the_next_command_follows_below_when_the_output_has_been_read() {
        let mut recording = Recording::default();
        add(&mut recording, "ls", &[(500, "a\r\n")]);
        add(&mut recording, "pwd", &[(700, "/b\r\n")]);
        let pictures = recording.pictures(("shop-x1", "shop"));
        let shown: Vec<_> =
            pictures.iter().map(|picture| (picture.from.as_millis(), texts(picture).join("|"))).collect();
        let expected = [(0, "$ ls"), (500, "$ ls|a"), (8500, "$ ls|a|$ pwd"), (9200, "$ ls|a|$ pwd|/b")];
        assert_eq!(shown, expected.map(|(from, text)| (from, text.to_owned())));
    }

    #[tokio::test]
    async fn commands_run_on_one_terminal_and_end_with_their_own_codes() {
        let mut recording = Recording::default();
        let shell = |script: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let first = recording.run("first", &shell("stty size; echo it\\'s one")).await.unwrap();
        let second = recording.run("second", &shell("echo two >&2; exit 3")).await.unwrap();
        assert_eq!((first.code, second.code), (Some(0), Some(3)));
        assert_eq!(first.text, format!("{ROWS} {COLUMNS}\r\nit's one\r\n"));
        assert_eq!(second.text, "two\r\n");
        let pictures = recording.pictures(("shop-x1", "shop"));
        let size = format!("{ROWS} {COLUMNS}");
        assert_eq!(texts(pictures.last().unwrap()), ["$ first", &size, "it's one", "$ second", "two"]);
        let silent = recording.run("silent", &shell("true")).await.unwrap_err();
        assert_eq!(silent.to_string(), "silent wrote nothing");
    }
}
