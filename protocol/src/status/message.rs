//! Messages of a status: a limit on texts that others wrote.

/// Maximum length of a text that is copied into a status, in bytes. The text of an annotation or a webhook
/// can have hundreds of kilobytes.
const MAX_TEXT: usize = 1024;
/// Maximum length of a text of others in a message, in bytes.
const MAX_QUOTE: usize = 256;

/// Returns the text, cut at the end when it is too long.
pub(crate) fn truncated(text: &str) -> String {
    cut(text, MAX_TEXT)
}

/// Returns the text, cut at the end when it has more bytes than that.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub("…".len()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Returns true for a character that a terminal does not show, or that changes the order in which it shows
/// others.
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}')
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// Returns the words of others: on one line, without control characters and those that change the direction
/// of a text or are not seen, and cut at the end when too long.
pub(crate) fn quote(text: &str) -> String {
    // What is cut away need not be cleaned.
    let clean: String =
        cut(text.trim(), 4 * MAX_QUOTE).chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect();
    cut(&clean.split_whitespace().collect::<Vec<_>>().join(" "), MAX_QUOTE)
}

/// Returns `: ` and the words of others, or nothing when they said nothing.
pub(crate) fn remark<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let said: Vec<_> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    if said.is_empty() { String::new() } else { format!(": {}", quote(&said.join(": "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_cut_and_no_character_in_half() {
        let fits = "x".repeat(MAX_TEXT);
        assert_eq!(truncated(&fits), fits);
        for long in ["x".repeat(MAX_TEXT + 1), "ü".repeat(MAX_TEXT), format!("x{}", "ü".repeat(MAX_TEXT))] {
            let cut = truncated(&long);
            assert!(cut.len() <= MAX_TEXT && cut.len() > MAX_TEXT - 3, "{}", cut.len());
            assert!(cut.ends_with('…') && long.starts_with(cut.trim_end_matches('…')));
        }
    }

    #[test]
    fn the_words_of_others_are_one_line_and_bounded() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a\u{202e}b\u{200b}c", "a b c"),
            (" two\nlines\t \u{1b}[31mred ", "two lines [31mred"),
            ("", ""),
            ("\u{0}\u{7f}\u{85}", ""),
        ] {
            assert_eq!(quote(text), expected, "{text:?}");
        }
        for long in ["x".repeat(100_000), "ü\n".repeat(100_000)] {
            let said = quote(&long);
            assert!(said.len() <= MAX_QUOTE && said.ends_with('…'), "{} bytes", said.len());
        }
        assert_eq!(
            (remark(["", " "]), remark(["Busy", "", "later"])),
            (String::new(), ": Busy: later".into())
        );
    }
}
