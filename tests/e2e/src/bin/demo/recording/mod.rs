//! A command on a terminal, recorded and drawn.
//!
//! util-linux' script makes the terminal. The output of the command is kept with its times, read by a
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
use terminal::{Row, Span, Terminal};

/// Columns of the terminal.
pub(crate) const COLUMNS: usize = 104;
/// Rows of the terminal.
const ROWS: usize = 30;
/// Minimum time that a picture is shown.
const SHORTEST: Duration = Duration::from_millis(400);

/// State of a terminal, and the time from which it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) from: Duration,
    pub(crate) rows: Vec<Row>,
}

/// Everything that a command wrote, with the time of each part.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    parts: Vec<(Duration, String)>,
}

impl Recording {
    /// Runs a command on a terminal to its end. Returns its exit code, too.
    ///
    /// # Errors
    ///
    /// There is no script(1), or the command does not start.
    pub(crate) async fn of(command: &std::process::Command) -> anyhow::Result<(Self, Option<i32>)> {
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
        let began = Instant::now();
        let (mut recording, mut rest, mut buffer) = (Self::default(), Vec::new(), [0_u8; 8192]);
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
            recording.parts.push((began.elapsed(), String::from_utf8_lossy(&text).into_owned()));
        }
        let code = child.wait().await?.code();
        ensure!(!recording.parts.is_empty(), "the command wrote nothing");
        Ok((recording, code))
    }

    /// Returns the pictures of the terminal, below a line with the command. The name of the namespace, which
    /// is another one in each run, is replaced.
    pub(crate) fn pictures(&self, command: &str, (namespace, name): (&str, &str)) -> Vec<Picture> {
        let mut terminal = Terminal::default();
        terminal.write(&format!("\u{1b}[32m$\u{1b}[0m \u{1b}[1m{command}\u{1b}[0m\r\n"));
        let mut pictures = vec![Picture { from: Duration::ZERO, rows: terminal.rows() }];
        for (time, text) in &self.parts {
            terminal.write(text);
            let rows: Vec<Row> =
                terminal.rows().into_iter().map(|row| replaced(row, namespace, name)).collect();
            match pictures.last_mut() {
                Some(last) if *time < last.from + SHORTEST => last.rows = rows,
                Some(last) if last.rows == rows => {}
                _ => pictures.push(Picture { from: *time, rows }),
            }
        }
        pictures
    }
}

/// Replaces a text in a line. What follows moves to the left or to the right.
fn replaced(row: Row, from: &str, to: &str) -> Row {
    let length = |text: &str| text.chars().count();
    let (mut removed, mut added) = (0_usize, 0_usize);
    row.into_iter()
        .map(|span| {
            let column = span.column.saturating_add(added).saturating_sub(removed);
            let found = span.text.matches(from).count();
            removed = removed.saturating_add(found.saturating_mul(length(from)));
            added = added.saturating_add(found.saturating_mul(length(to)));
            Span { column, text: span.text.replace(from, to), ..span }
        })
        .collect()
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_stays_for_a_while_and_names_the_namespace_as_told() {
        let part = |millis: u64, text: &str| (Duration::from_millis(millis), text.to_owned());
        let parts =
            vec![part(100, "a\r\n"), part(300, "b\r\n"), part(900, "\u{1b}[31mshop-x1/c\u{1b}[0m d\r\n")];
        let pictures = Recording { parts }.pictures("ls", ("shop-x1", "shop"));
        let from: Vec<_> = pictures.iter().map(|picture| picture.from.as_millis()).collect();
        assert_eq!(from, [0, 900]);
        let last: Vec<_> = pictures[1].rows[3].iter().map(|span| (span.column, span.text.as_str())).collect();
        assert_eq!(last, [(0, "shop/c"), (7, "d")]);
    }
}
