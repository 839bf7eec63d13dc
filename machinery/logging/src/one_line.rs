//! Escaping of line breaks.

use std::borrow::Cow;

/// Escapes newlines and carriage returns, as `\n` and `\r`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) {
        Cow::Owned(text.replace('\n', "\\n").replace('\r', "\\r"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_breaks_are_escaped() {
        assert_eq!(one_line("a\r\nb\tc"), "a\\r\\nb\tc");
        assert!(matches!(one_line("plain"), Cow::Borrowed("plain")));
    }
}
