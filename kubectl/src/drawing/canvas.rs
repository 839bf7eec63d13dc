//! The size of a terminal, and its colours.

use console::{Style, truncate_str};
use evacuation_api::DrainVerdict;

use crate::fold;

/// Size and colours of a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    /// Number of columns.
    pub(crate) width: usize,
    /// Number of rows.
    pub(crate) height: usize,
    /// True when escape codes for colours are understood and wanted.
    pub(crate) colours: bool,
}

/// Meaning of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Plain,
    Bold,
    Faint,
    Green,
    Yellow,
    Red,
}

impl Colour {
    /// Returns the colour of a verdict.
    pub(super) fn of(verdict: DrainVerdict) -> Self {
        match verdict {
            DrainVerdict::Waiting | DrainVerdict::Canceled => Self::Faint,
            DrainVerdict::Draining => Self::Plain,
            DrainVerdict::Slow => Self::Yellow,
            DrainVerdict::Stuck | DrainVerdict::Failed => Self::Red,
            DrainVerdict::Drained => Self::Green,
        }
    }
}

impl Canvas {
    /// Paints a text.
    pub(super) fn paint(&self, colour: Colour, text: &str) -> String {
        let style = match colour {
            _ if text.is_empty() => return String::new(),
            Colour::Plain => return text.to_owned(),
            Colour::Bold => Style::new().bold(),
            Colour::Faint => Style::new().dim(),
            Colour::Green => Style::new().green(),
            Colour::Yellow => Style::new().yellow(),
            Colour::Red => Style::new().red(),
        };
        style.force_styling(self.colours).apply_to(text).to_string()
    }

    /// Cuts a line to the width.
    pub(crate) fn cut(&self, line: &str) -> String {
        truncate_str(line, self.width, "…").into_owned()
    }

    /// Breaks a text into lines of the width between words. `indent` stands before each of them.
    pub(crate) fn wrap(&self, text: &str, indent: &str) -> Vec<String> {
        fold::wrap(text, self.width, indent, indent).iter().map(|line| self.cut(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_breaks_between_words_and_no_line_is_too_long() {
        let canvas = Canvas { width: 12, height: 10, colours: false };
        let lines = canvas.wrap("the budget allows noneatallwhatever", "  ");
        assert_eq!(lines, ["  the budget", "  allows", "  noneatall…"]);
    }

    #[test]
    fn a_cut_keeps_the_colours_in_order() {
        let canvas = Canvas { width: 4, height: 10, colours: true };
        let cut = canvas.cut(&canvas.paint(Colour::Red, "stuck for ever"));
        assert_eq!(cut, "\u{1b}[31mstu…\u{1b}[0m");
    }
}
