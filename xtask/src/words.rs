//! Check of the comments: short lines, and doc comments that open with a noun or a verb.

use std::{fs, path::Path};

use anyhow::{Context, bail};

/// Maximum number of columns of a comment line.
const COLUMNS: usize = 110;
/// Maximum share of doc comments that open with a question word, in percent.
const PERCENT: usize = 2;
/// Words with which a doc comment does not open.
const QUESTION_WORDS: [&str; 13] =
    ["What", "Who", "Whose", "Whom", "How", "When", "Where", "Whether", "Why", "So", "Nor", "To", "Which"];

/// Findings in a set of files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Number of doc comments.
    comments: usize,
    /// Doc comments that open with a question word.
    questions: Vec<String>,
    /// Comment lines that are too long.
    long: Vec<String>,
}

/// Fails when a comment line is too long, or too many doc comments open with a question word.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut findings = Findings::default();
    read_folder(root, root, &mut findings)?;
    let Findings { comments, questions, long } = findings;
    if !long.is_empty() {
        bail!("comment lines end at {COLUMNS} columns:\n{}", long.join("\n"));
    }
    if questions.len() * 100 >= comments * PERCENT {
        let count = questions.len();
        bail!("{count} of {comments} doc comments open with a question word:\n{}", questions.join("\n"));
    }
    Ok(())
}

fn read_folder(root: &Path, folder: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            read_folder(root, &path, findings)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            read_file(&path.strip_prefix(root).unwrap_or(&path).display().to_string(), &text, findings);
        }
    }
    Ok(())
}

fn read_file(name: &str, text: &str, findings: &mut Findings) {
    let mut in_comment = false;
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{name}:{}: {}", number + 1, line.trim());
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") && line.chars().count() > COLUMNS {
            findings.long.push(place());
        }
        let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
        let opens = doc.is_some() && !in_comment;
        in_comment = doc.is_some();
        if opens {
            findings.comments += 1;
            let first = doc.unwrap_or_default().split_whitespace().next().unwrap_or_default();
            if QUESTION_WORDS.contains(&first.trim_end_matches(|c: char| !c.is_alphabetic())) {
                findings.questions.push(place());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Findings {
        let mut findings = Findings::default();
        read_file("x.rs", text, &mut findings);
        findings
    }

    #[test]
    fn a_doc_comment_that_opens_with_a_question_word_is_found_by_its_first_line() {
        let findings =
            found("//! Rules.\n\n/// Who asks.\n/// What else.\nstruct A;\n    /// Size.\n// How.\n");
        assert_eq!(findings.comments, 3);
        assert_eq!(findings.questions, ["x.rs:3: /// Who asks."]);
    }

    #[test]
    fn a_comment_line_that_is_too_long_is_found() {
        let long = format!("// {}", "x".repeat(COLUMNS - 2));
        assert_eq!(found(&long).long.len(), 1);
        assert_eq!(found(&long[1..]).long.len(), 0, "a line of code is rustfmt's affair");
        assert_eq!(found(&long[..COLUMNS]).long.len(), 0);
    }
}
