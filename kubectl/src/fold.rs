//! Lines folded between words at the width of a terminal. Pure.

use console::measure_text_width;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Number of columns by which the rest of a line stands further to the right than its beginning.
const HANG: usize = 4;
/// Separator of columns, at least: that of [`crate::plain::columns`].
const GAP: &str = "   ";
/// Minimum width of the last column of a table under which its text is continued.
const LAST_COLUMN: usize = 40;

/// Stands for a space in a command while its line is folded. No text has it.
const HELD: char = '\u{f8ff}';
/// End of a line whose command goes on, as shells read it.
const GOES_ON: &str = " \\";

/// Returns a text whose lines are at most that wide. A word that is wider, such as a flag with its value, has
/// a line of its own. The rest of a line is indented, or stands under the last column of a table.
///
/// A command can be pasted into a shell from where it begins: it has lines of its own if it does not fit, and
/// each of them but the last ends with a backslash.
pub(crate) fn fold(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').flat_map(|line| fold_line(line, width)).collect();
    lines.join("\n")
}

fn fold_line(line: &str, width: usize) -> Vec<String> {
    if measure_text_width(line) <= width {
        return vec![line.to_owned()];
    }
    wrap(line, width, "", &" ".repeat(hang(line, width)))
}

/// Returns the lines of a text, of which the first has one indent and the others another one.
pub(crate) fn wrap(text: &str, width: usize, first: &str, others: &str) -> Vec<String> {
    let lines = wrap_words(&hold_commands(text), width, first, others);
    lines.iter().flat_map(|line| release_command(line, width, others)).collect()
}

fn wrap_words(text: &str, width: usize, first: &str, others: &str) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(others)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// Returns the text with each of its commands as one word.
fn hold_commands(text: &str) -> String {
    let mut held = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("kubectl ") {
        let (before, command) = rest.split_at(start);
        let (command, after) = command.split_at(command_end(command));
        held.push_str(before);
        held.extend(command.chars().map(|character| if character == ' ' { HELD } else { character }));
        rest = after;
    }
    held + rest
}

/// Returns the length of the command with which a text begins. It ends with the text, or outside of quotes
/// before a sign that ends a part of a sentence.
fn command_end(text: &str) -> usize {
    let mut quoted = false;
    for (place, character) in text.char_indices() {
        quoted ^= character == '\'';
        let rest = text.get(place..).unwrap_or_default();
        if !quoted && [", ", "; ", ". ", ": ", " ("].iter().any(|end| rest.starts_with(end)) {
            return place;
        }
    }
    text.len()
}

/// Returns a line as it is read, and a command that is wider than the line in several.
fn release_command(line: &str, width: usize, others: &str) -> Vec<String> {
    let text = line.replace(HELD, " ");
    if measure_text_width(&text) <= width || !line.contains(HELD) {
        return vec![text];
    }
    let indent = " ".repeat(text.len() - text.trim_start_matches(' ').len());
    let further = format!("{others}{}", " ".repeat(HANG));
    let mut lines = wrap_words(text.trim_start(), width.saturating_sub(GOES_ON.len()), &indent, &further);
    let last = lines.pop();
    for line in &mut lines {
        line.push_str(GOES_ON);
    }
    lines.into_iter().chain(last).collect()
}

/// Returns the indent of the rest of a line.
fn hang(line: &str, width: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let column = line.get(indent..).and_then(|rest| rest.rfind(GAP)).map(|gap| indent + gap + GAP.len());
    let column = column.and_then(|column| line.get(..column)).map(measure_text_width);
    column.filter(|column| column + LAST_COLUMN <= width).unwrap_or(indent + HANG).min(width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_folded_between_words_and_its_rest_is_indented() {
        for (text, expected) in [
            ("short", "short"),
            ("  pod/a: the budget allows none", "  pod/a: the budget\n      allows none"),
            ("one\n\n    two three four five six", "one\n\n    two three four\n        five six"),
        ] {
            assert_eq!(fold(text, 20), expected);
        }
    }

    #[test]
    fn a_command_can_be_pasted_however_narrow_the_terminal_is() {
        let text = "what helps: keep one: kubectl delete pdb b -n shop; or ask: kubectl evacuate set a --deadline=10m";
        for (width, expected) in [
            (
                60,
                "what helps: keep one: kubectl delete pdb b -n shop; or ask:\n    \
                 kubectl evacuate set a --deadline=10m",
            ),
            (
                42,
                "what helps: keep one:\n    kubectl delete pdb b -n shop; or ask:\n    \
                 kubectl evacuate set a --deadline=10m",
            ),
            (
                32,
                "what helps: keep one:\n    kubectl delete pdb b -n \\\n        shop;\n    or ask:\n    \
                 kubectl evacuate set a \\\n        --deadline=10m",
            ),
        ] {
            assert_eq!(fold(text, width), expected, "{width}");
        }
        assert_eq!(fold("--at-deadline=delete-everything", 10), "--at-deadline=delete-everything");
        let patch = "run kubectl patch pdb b -p '{\"a\": 1, \"b\": 2}'";
        assert_eq!(hold_commands(patch).matches(HELD).count(), 8, "quotes keep a comma in the command");
    }

    #[test]
    fn the_last_column_of_a_table_is_continued_under_itself_where_there_is_room() {
        let row = "NAME   AGE   a message that has some more words than fit into the line of the terminal";
        let beside = fold(row, 60);
        assert!(beside.ends_with("\n             into the line of the terminal"), "{beside}");
        let below = fold(row, 50);
        assert!(below.ends_with("\n    than fit into the line of the terminal"), "{below}");
    }
}
