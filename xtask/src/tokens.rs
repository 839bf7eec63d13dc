//! Words and signs of Rust code, without comments, texts and tests.

#![expect(
    clippy::indexing_slicing,
    reason = "every index is a position that a loop over the same slice found"
)]

/// One word or sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Returns true for the token of that text.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0 == text
    }

    /// Returns the text of an identifier or keyword.
    pub(crate) fn word(&self) -> Option<&str> {
        self.0.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(self.0.as_str())
    }
}

/// Returns the tokens of a file.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    without_tests(&scan(text))
}

fn scan(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(hashes) = raw_text(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = rest.find('"').map_or(rest.len(), |at| at + 1);
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if first == '"' {
            quoted(rest)
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token(rest[..length].to_owned()));
            length
        } else if rest.starts_with("::") {
            found.push(Token("::".to_owned()));
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token(first.to_string()));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// Returns the length of a block comment, which can hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the number of signs `#` of a raw text that begins here.
fn raw_text(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a text in quotes.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character, or of the sign that begins a lifetime.
fn character(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            text[from..].find('\'').map_or(text.len(), |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Leaves out each item that is only there for tests.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const TEST_ONLY: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let marked = tokens[at..].iter().zip(TEST_ONLY).filter(|(token, sign)| token.is(sign)).count();
        if marked == TEST_ONLY.len() {
            at = item_end(tokens, at + TEST_ONLY.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Returns the position after an item: after its block, or after its semicolon.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let is_use = tokens[start..].iter().take(5).any(|token| token.is("use"));
    let mut open = 0_usize;
    for (offset, token) in tokens[start..].iter().enumerate() {
        match token {
            token if token.is("{") => open += 1,
            token if token.is("}") => {
                open = open.saturating_sub(1);
                if open == 0 && !is_use {
                    return start + offset + 1;
                }
            }
            token if token.is(";") && open == 0 => return start + offset + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).iter().filter_map(Token::word).map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_texts_hold_no_words() {
        for (text, expected) in [
            ("a // b\nc", vec!["a", "c"]),
            ("a /* b /* c */ d */ e", vec!["a", "e"]),
            (r#"a "b \" c" d"#, vec!["a", "d"]),
            ("a r#\"b \" c\"# d", vec!["a", "d"]),
            (r"a 'b' '\'' 'c d", vec!["a", "c", "d"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_there_for_tests_is_left_out() {
        for (text, expected) in [
            ("a #[cfg(test)] mod tests { b { c } d } e", vec!["a", "e"]),
            ("a #[cfg(test)] mod tests; b", vec!["a", "b"]),
            ("a #[cfg(test)] pub(crate) use b::{c, d}; e", vec!["a", "e"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
