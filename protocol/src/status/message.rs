//! Messages of a status: a limit on texts that others wrote.

/// Maximum length of a text that is copied into a status, in bytes. The text of an annotation or a webhook
/// can have hundreds of kilobytes.
const MAX_TEXT: usize = 1024;

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
}
