//! The screen of a terminal, as far as our commands use one: lines, colours, and a cursor that goes up.

use super::COLUMNS;

/// Colours and weight of a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ink {
    /// Number of the colour, 1 to 7; the terminal's own by default.
    pub(crate) colour: Option<u8>,
    pub(crate) bold: bool,
    pub(crate) faint: bool,
}

/// Characters of the same ink that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) column: usize,
    pub(crate) text: String,
    pub(crate) ink: Ink,
}

/// One line of the screen.
pub(crate) type Row = Vec<Span>;

/// A screen of any height.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    cells: Vec<Vec<(char, Ink)>>,
    row: usize,
    column: usize,
    ink: Ink,
}

impl Terminal {
    /// Takes what a program writes. Codes that it does not know change nothing.
    pub(crate) fn write(&mut self, text: &str) {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\r' => self.column = 0,
                '\n' => {
                    self.row += 1;
                    self.column = 0;
                }
                '\u{1b}' => {
                    if characters.next() != Some('[') {
                        continue;
                    }
                    let mut parameters = String::new();
                    let end = characters.by_ref().find(|c| {
                        let ends = ('@'..='~').contains(c);
                        if !ends {
                            parameters.push(*c);
                        }
                        ends
                    });
                    self.control(end.unwrap_or_default(), &parameters);
                }
                character if character.is_control() => {}
                character => self.put(character),
            }
        }
    }

    /// Returns the lines down to the last one that is not empty.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.cells.iter().map(|cells| spans(cells)).collect();
        while rows.last().is_some_and(Vec::is_empty) {
            rows.pop();
        }
        rows
    }

    fn control(&mut self, code: char, parameters: &str) {
        let number = parameters.parse().unwrap_or(1);
        match code {
            'A' => self.row = self.row.saturating_sub(number),
            'B' => self.row += number,
            'K' => {
                let from = if parameters == "2" { 0 } else { self.column };
                if let Some(cells) = self.cells.get_mut(self.row) {
                    cells.truncate(from);
                }
            }
            'm' => parameters.split(';').for_each(|code| self.paint(code)),
            _ => {}
        }
    }

    fn paint(&mut self, code: &str) {
        match code.parse::<u8>().unwrap_or_default() {
            0 => self.ink = Ink::default(),
            1 => self.ink.bold = true,
            2 => self.ink.faint = true,
            colour @ 31..=37 => self.ink.colour = Some(colour - 30),
            39 => self.ink.colour = None,
            _ => {}
        }
    }

    fn put(&mut self, character: char) {
        // A full line is continued in the next one when one more character comes.
        if self.column >= COLUMNS {
            self.row += 1;
            self.column = 0;
        }
        while self.cells.len() <= self.row {
            self.cells.push(Vec::new());
        }
        if let Some(cells) = self.cells.get_mut(self.row) {
            while cells.len() <= self.column {
                cells.push((' ', Ink::default()));
            }
            if let Some(cell) = cells.get_mut(self.column) {
                *cell = (character, self.ink);
            }
        }
        self.column += 1;
    }
}

/// Returns the texts of a line. Blanks between them and at the end are left out.
fn spans(cells: &[(char, Ink)]) -> Row {
    let mut row: Row = Vec::new();
    for (column, (character, ink)) in cells.iter().enumerate() {
        match row.last_mut() {
            Some(last) if last.ink == *ink => last.text.push(*character),
            _ => row.push(Span { column, text: character.to_string(), ink: *ink }),
        }
    }
    for span in &mut row {
        let text = span.text.trim_start();
        span.column += span.text.chars().count() - text.chars().count();
        span.text = text.trim_end().to_owned();
    }
    row.retain(|span| !span.text.is_empty());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(terminal: &Terminal) -> Vec<String> {
        let line = |row: &Row| row.iter().map(|span| span.text.clone()).collect::<Vec<_>>().join("|");
        terminal.rows().iter().map(line).collect()
    }

    #[test]
    fn lines_that_are_redrawn_in_place_replace_the_old_ones() {
        let mut terminal = Terminal::default();
        terminal.write("kept\r\nold one\r\nold two\r\n");
        terminal.write("\u{1b}[2A\r\u{1b}[2K\u{1b}[1B\r\u{1b}[2K\u{1b}[1B\u{1b}[2Anew\r\n");
        assert_eq!(texts(&terminal), ["kept", "new"]);
    }

    #[test]
    fn a_line_that_is_too_long_continues_in_the_next_one() {
        let mut terminal = Terminal::default();
        let full = "x".repeat(COLUMNS);
        terminal.write(&format!("{full}\r\n{full}yz\r\nend\r\n"));
        assert_eq!(texts(&terminal), [&full, &full, "yz", "end"]);
    }

    #[test]
    fn a_line_is_cut_where_its_colour_changes() {
        let mut terminal = Terminal::default();
        terminal.write("a \u{1b}[31mred\u{1b}[0m \u{1b}[1m\u{1b}[2mboth\u{1b}[0m\n");
        let rows = terminal.rows();
        let inks: Vec<_> = rows[0].iter().map(|span| (span.column, span.ink.colour, span.ink.bold)).collect();
        assert_eq!(inks, [(0, None, false), (2, Some(1), false), (6, None, true)]);
        assert!(rows[0][2].ink.faint);
    }
}
