//! What is wrong with a document without making it unreadable, in bounded words.

use std::fmt::{self, Write};

/// Maximum number of findings of one sort, as in Kubernetes' own decoder.
pub(crate) const MAX_FINDINGS: usize = 100;
/// Maximum length of a path in bytes. A document may repeat a field within a long key very often, and the
/// path is written for each repetition.
const MAX_PATH: usize = 256;
/// End of a path that was cut.
const CUT: &str = "…";

/// Writes unknown and duplicate fields in Kubernetes' words.
pub(crate) fn findings(unknown: &[String], duplicate: &[String]) -> Vec<String> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicate = duplicate.iter().map(|path| format!("duplicate field {path:?}"));
    unknown.chain(duplicate).collect()
}

/// Writes the path of a field, cut to [`MAX_PATH`]. The time that it takes does not grow with the path.
pub(crate) fn path(path: &impl fmt::Display) -> String {
    let mut bounded = Bounded(String::new());
    // The error is that of the bound: what fits is there.
    let _ = write!(bounded, "{path}");
    bounded.0
}

/// A text that ends at [`MAX_PATH`], with an error for its writer.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = MAX_PATH.saturating_sub(self.0.len());
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(text.split_at(text.floor_char_boundary(left)).0);
        self.0.truncate(self.0.floor_char_boundary(MAX_PATH.saturating_sub(CUT.len())));
        self.0.push_str(CUT);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_cut_at_a_character_and_says_so() {
        assert_eq!(path(&"spec.a"), "spec.a");
        let full = "k".repeat(MAX_PATH);
        assert_eq!(path(&full), full);
        assert_eq!(path(&"k".repeat(MAX_PATH + 1)), format!("{}…", "k".repeat(MAX_PATH - 3)));
        // Characters of three bytes do not end at the bound.
        assert_eq!(path(&"€".repeat(MAX_PATH)), format!("{}…", "€".repeat(84)));
    }

    #[test]
    fn a_path_whose_first_part_fills_it_is_cut_there() {
        let parts = format_args!("{}{}{}", "k".repeat(MAX_PATH - 1), ".", "more").to_string();
        assert_eq!(path(&parts), format!("{}…", "k".repeat(MAX_PATH - 3)));
    }
}
