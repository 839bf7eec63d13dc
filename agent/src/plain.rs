//! Text for messages: commands write for a terminal, and the API refuses control characters.

/// Start of a terminal's escape sequence.
const ESCAPE: char = '\u{1b}';
/// Maximum size of a message, in bytes. The API takes 4096.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// Makes one line of plain text: without escape sequences, without control characters except tabs, and cut to
/// [`MAX_MESSAGE`].
pub(crate) fn message(text: &str) -> String {
    let mut line = String::new();
    for c in Unescaped(text.chars()) {
        let c = if matches!(c, '\n' | '\r') { ' ' } else { c };
        if line.len() + c.len_utf8() > MAX_MESSAGE {
            break;
        }
        if c == '\t' || !c.is_control() {
            line.push(c);
        }
    }
    line.trim().to_owned()
}

/// The last line that is not blank, as a message. A carriage return ends a line too, as in a progress bar.
pub(crate) fn last_line(text: &str) -> String {
    text.rsplit(['\n', '\r']).map(message).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Characters without the escape sequences of ECMA-48.
struct Unescaped<'a>(std::str::Chars<'a>);

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.0.next()? {
                ESCAPE => self.skip(),
                // The same as `ESC [` and `ESC ]`, in one character.
                '\u{9b}' => self.skip_parameters(),
                '\u{9d}' => self.skip_string(),
                c => return Some(c),
            }
        }
    }
}

impl Unescaped<'_> {
    /// Skips what follows an escape.
    fn skip(&mut self) {
        // Characters between the escape and the one that ends the sequence.
        match self.0.find(|c| !(' '..='/').contains(c)) {
            Some('[') => self.skip_parameters(),
            // A command of the system, such as a window's title, and others that end as it does.
            Some(']' | 'P' | 'X' | '^' | '_') => self.skip_string(),
            _ => {}
        }
    }

    /// Skips parameters, and the character that ends them.
    fn skip_parameters(&mut self) {
        self.0.find(|c| !(' '..='?').contains(c));
    }

    /// Skips to a bell or the string terminator, `ESC \` or its single character.
    fn skip_string(&mut self) {
        let end = self.0.find(|&c| matches!(c, '\u{7}' | '\u{9c}' | ESCAPE));
        if end == Some(ESCAPE) {
            self.0.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_nothing_that_steers_a_terminal() {
        for (text, expected) in [
            ("a backup runs", "a backup runs"),
            ("\u{1b}[1;31mERROR\u{1b}[0m a backup runs\u{1b}[K", "ERROR a backup runs"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]0;a title\u{7}text", "text"),
            ("\u{1b}]8;;http://x/\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Bplain\u{1b}7", "plain"),
            ("bell\u{7} and\u{0} tab\tand\u{8}\u{7f}\u{85}", "bell and tab\tand"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("läuft \u{1F680}", "läuft \u{1F680}"),
        ] {
            let found = message(text);
            assert_eq!(found, expected, "{text:?}");
            assert!(!found.replace('\t', "").contains(char::is_control), "{found:?}");
        }
    }

    #[test]
    fn the_last_line_is_what_a_terminal_would_show_last() {
        for (text, expected) in [
            ("one\ntwo\n\n", "two"),
            ("10 %\r50 %\rdone\r\n", "done"),
            ("a backup runs\n\u{1b}[0m\n", "a backup runs"),
            ("a backup runs\r\u{1b}[K", "a backup runs"),
            (" \n", ""),
        ] {
            assert_eq!(last_line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(last_line(&"ä".repeat(2000)), "ä".repeat(MAX_MESSAGE / 2));
        assert_eq!(last_line(&"x".repeat(2000)), "x".repeat(MAX_MESSAGE));
    }
}
