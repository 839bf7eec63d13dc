//! The part of a test's doc comment that describes the attack it plays.
//!
//! ```text
//! /// # Attack
//! ///
//! /// - Attacker: a tenant with the role `edit`
//! /// - Act: fills the entries of its pod
//! /// - Promise: 8
//! ```

use std::collections::BTreeMap;

/// Line that opens the description.
const HEADING: &str = "# Attack";
/// Number of rules of the design: each promise is one of them.
pub(super) const PROMISES: u8 = 12;

/// An attack that a test plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attack {
    /// The attacker, such as "a tenant with the role `edit`".
    pub(super) attacker: String,
    /// The act, as a verb in the third person with its object.
    pub(super) act: String,
    /// Numbers of the promises that hold against it, at least one.
    pub(super) promises: Vec<u8>,
    /// Name of the test.
    pub(super) test: String,
    /// File of the test, from the project's root.
    pub(super) file: String,
}

/// A description that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) file: String,
    /// Line of the heading, from 1.
    pub(super) line: usize,
    pub(super) message: String,
}

/// Returns the attacks of a source file, in their order.
///
/// # Errors
///
/// A description lacks a field, has an unknown one, names no promise, or stands at no test.
pub(super) fn attacks(file: &str, text: &str) -> Result<Vec<Attack>, Problem> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        if doc(line) != Some(HEADING) {
            continue;
        }
        let rest = lines.get(place + 1..).unwrap_or_default();
        let attack = attack(file, rest);
        found.push(attack.map_err(|message| Problem { file: file.to_owned(), line: place + 1, message })?);
    }
    Ok(found)
}

/// Returns the text of a doc comment's line.
fn doc(line: &str) -> Option<&str> {
    line.strip_prefix("///").map(str::trim)
}

/// Reads a description from the lines after its heading.
fn attack(file: &str, lines: &[&str]) -> Result<Attack, String> {
    let description: Vec<&str> = lines.iter().map_while(|line| doc(line)).collect();
    let mut fields = fields(&description)?;
    let mut take = |name: &str| fields.remove(name).ok_or_else(|| format!("the field {name} is missing"));
    let (attacker, act, promises) = (take("Attacker")?, take("Act")?, take("Promise")?);
    if let Some(unknown) = fields.keys().next() {
        return Err(format!("{unknown} is no field: Attacker, Act and Promise are"));
    }
    let test = test_name(lines.get(description.len()..).unwrap_or_default())?;
    Ok(Attack { attacker, act, promises: numbers(&promises)?, test, file: file.to_owned() })
}

/// Reads the list of fields. A line without a dash continues the field before it.
fn fields(description: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in description.iter().filter(|line| !line.is_empty()) {
        if let Some(item) = line.strip_prefix("- ") {
            let (name, value) = item.split_once(": ").ok_or_else(|| format!("{item:?} has no field"))?;
            fields.push((name.to_owned(), value.trim().to_owned()));
        } else if let Some((_, value)) = fields.last_mut() {
            value.push(' ');
            value.push_str(line);
        } else {
            return Err(format!("{line:?} belongs to no field"));
        }
    }
    Ok(fields.into_iter().collect())
}

fn numbers(text: &str) -> Result<Vec<u8>, String> {
    let number = |part: &str| {
        let number = part.trim().parse().ok().filter(|number| (1..=PROMISES).contains(number));
        number.ok_or_else(|| format!("{part:?} is no promise: they are the rules 1 to {PROMISES}"))
    };
    text.split(',').map(number).collect()
}

/// Returns the name of the function after the attributes, one of which must make it a test.
fn test_name(lines: &[&str]) -> Result<String, String> {
    let attributes = lines.iter().take_while(|line| line.starts_with("#["));
    let is_test = |line: &&&str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    if attributes.clone().filter(is_test).count() == 0 {
        return Err("no test follows".to_owned());
    }
    let line = lines.get(attributes.count()).copied().unwrap_or_default();
    let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
    name.map(|(name, _)| name.to_owned()).ok_or_else(|| format!("{line:?} is no function"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: &str = "
/// A flood refuses nobody else.
///
/// # Attack
///
/// - Attacker: a pod with its own token
/// - Act: sends as many requests as it can,
///   without a pause
/// - Promise: 8, 9
#[tokio::test(flavor = \"multi_thread\")]
async fn a_flood_refuses_nobody() {
";

    #[test]
    fn an_attack_is_read_from_the_doc_comment_of_its_test() {
        let found = attacks("tests/flood.rs", FLOOD).unwrap();
        let expected = Attack {
            attacker: "a pod with its own token".to_owned(),
            act: "sends as many requests as it can, without a pause".to_owned(),
            promises: vec![8, 9],
            test: "a_flood_refuses_nobody".to_owned(),
            file: "tests/flood.rs".to_owned(),
        };
        assert_eq!(found, [expected]);
        assert_eq!(attacks("x.rs", "/// Just a comment.\n#[test]\nfn it_works() {}\n").unwrap(), []);
    }

    #[test]
    fn a_description_that_cannot_be_read_is_a_problem_with_its_line() {
        let table = [
            ("- Act: sends as many requests as it can,", "- Acts: sends", "the field Act is missing"),
            ("/// - Promise: 8, 9", "/// - Promise: 8\n/// - Since: 2", "Since is no field"),
            ("8, 9", "13", "\"13\" is no promise"),
            ("#[tokio::test(flavor = \"multi_thread\")]\n", "", "no test follows"),
            ("async fn", "struct", "is no function"),
            ("/// - Attacker: a pod with its own token", "/// a pod", "belongs to no field"),
        ];
        for (part, instead, expected) in table {
            let problem = attacks("x.rs", &FLOOD.replace(part, instead)).unwrap_err();
            assert!(problem.message.contains(expected), "{instead}: {problem:?}");
            assert_eq!(problem.line, 4);
        }
    }
}
