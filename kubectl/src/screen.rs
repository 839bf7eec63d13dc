//! The terminal: lines that stay, and below them a drawing that is replaced in place.

use std::{io, time::Duration};

use console::{Term, measure_text_width};

use crate::{drawing::Canvas, fold::fold};

/// Interval at which a drawing is brought up to date.
pub(crate) const REDRAW: Duration = Duration::from_millis(200);

/// Destination of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// A terminal with a drawing at its end.
pub(crate) struct Screen {
    terminal: Term,
    drawn: Vec<String>,
}

impl Screen {
    /// Returns the terminal behind that stream, if it is one that can move its cursor.
    pub(crate) fn of(lines: Lines) -> Option<Self> {
        let terminal = match lines {
            Lines::Output => Term::buffered_stdout(),
            Lines::Errors => Term::buffered_stderr(),
        };
        let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        (terminal.is_term() && !dumb).then(|| Self { terminal, drawn: Vec::new() })
    }

    /// Returns the size and the colours of the terminal as it is now.
    pub(crate) fn canvas(&self) -> Canvas {
        let (height, width) = self.terminal.size();
        let colours = match self.terminal.target() {
            console::TermTarget::Stderr => console::colors_enabled_stderr(),
            _ => console::colors_enabled(),
        };
        Canvas { width: usize::from(width), height: usize::from(height), colours }
    }

    /// Replaces the drawing.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written to.
    pub(crate) fn draw(&mut self, mut lines: Vec<String>) -> io::Result<()> {
        // What has left the screen at its top cannot be replaced.
        lines.truncate(usize::from(self.terminal.size().0).saturating_sub(1));
        if lines == self.drawn {
            return Ok(());
        }
        self.clear()?;
        self.drawn = lines;
        self.redraw()
    }

    /// Prints a line above the drawing, which stays. It is folded at the terminal's width.
    ///
    /// # Errors
    ///
    /// As [`Self::draw`].
    pub(crate) fn print(&mut self, line: &str) -> io::Result<()> {
        self.clear()?;
        self.terminal.write_line(&fold(line, self.canvas().width))?;
        self.redraw()
    }

    fn clear(&self) -> io::Result<()> {
        let width = usize::from(self.terminal.size().1).max(1);
        self.terminal.clear_last_lines(rows(&self.drawn, width))
    }

    fn redraw(&self) -> io::Result<()> {
        for line in &self.drawn {
            self.terminal.write_line(line)?;
        }
        self.terminal.flush()
    }
}

/// Returns the number of rows that lines take. A terminal that became narrower has wrapped them.
fn rows(lines: &[String], width: usize) -> usize {
    lines.iter().map(|line| measure_text_width(line).div_ceil(width).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_narrower_terminal_has_wrapped_take_more_rows() {
        let lines = ["", "\u{1b}[31mabcdef\u{1b}[0m", "abc"].map(str::to_owned);
        assert_eq!((rows(&lines, 6), rows(&lines, 3), rows(&lines, 2)), (3, 4, 6));
    }
}
