//! Inputs of the fuzzer in the repository.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// Beginning of the names of inputs that people wrote. They stay whatever other inputs reach.
const SEED: &str = "seed-";
/// Lengths of words in bytes.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 2..=40;

/// Returns the words of a target's seeds as a dictionary of libFuzzer. The fuzzer puts them into inputs: it
/// would hardly guess the name of a field.
///
/// # Errors
///
/// Fails when the folder cannot be read.
pub(crate) fn words_of_seeds(corpus: &Path) -> io::Result<String> {
    let mut words = BTreeSet::new();
    for entry in fs::read_dir(corpus)? {
        let entry = entry?;
        if is_seed(&entry.file_name().to_string_lossy()) {
            words.extend(words_of(&fs::read(entry.path())?));
        }
    }
    // libFuzzer refuses a file without a line.
    let mut dictionary = "# Words of the seeds.\n".to_owned();
    for word in words {
        let escaped = word.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
            text
        });
        let _ = writeln!(dictionary, "\"{escaped}\"");
    }
    Ok(dictionary)
}

/// Returns the names in a text, and the runs of other characters between white space.
fn words_of(text: &[u8]) -> Vec<Vec<u8>> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte) || !byte.is_ascii();
    let names = text.split(|byte| !is_name(byte));
    let marks = text.split(|byte| is_name(byte) || byte.is_ascii_whitespace());
    let fits = |word: &&[u8]| WORD_BYTES.contains(&word.len());
    names.chain(marks).filter(fits).map(<[u8]>::to_vec).collect()
}

/// Returns at most `limit` inputs that reach the most code together, beyond what the seeds reach. `control`
/// is the control file of a merge: the number of inputs, a line that is not used here, the inputs' paths,
/// and `FT INPUT FEATURE...` for each input.
///
/// # Errors
///
/// Fails for a text of another form, such as one of a merge that ended early: the corpus would be emptied.
pub(crate) fn richest(control: &str, limit: usize) -> anyhow::Result<Vec<PathBuf>> {
    let mut lines = control.lines();
    let count = lines.next().unwrap_or_default();
    let count =
        count.parse().with_context(|| format!("a control file of libFuzzer begins with {count:?}"))?;
    let paths: Vec<&Path> = lines.by_ref().skip(1).take(count).map(Path::new).collect();
    let mut left: Vec<(&Path, BTreeSet<&str>)> = Vec::new();
    let mut reached = BTreeSet::new();
    for line in lines.filter_map(|line| line.strip_prefix("FT ")) {
        let mut words = line.split_whitespace();
        let input = words.next().and_then(|input| paths.get(input.parse::<usize>().ok()?));
        let path = input.with_context(|| format!("a control file of libFuzzer has the line FT {line:?}"))?;
        if is_seed(&name_of(path)) {
            reached.extend(words);
        } else {
            left.push((path, words.collect()));
        }
    }
    let mut chosen = Vec::new();
    while chosen.len() < limit {
        let gain = |(_, features): &(&Path, BTreeSet<&str>)| features.difference(&reached).count();
        let Some(best) = left.iter().max_by_key(|input| gain(input)).filter(|input| gain(input) > 0) else {
            break;
        };
        chosen.push(best.0.to_owned());
        let features = best.1.clone();
        reached.extend(features);
    }
    Ok(chosen)
}

/// Replaces the inputs of a target by these. Seeds stay, and no input is there twice.
///
/// # Errors
///
/// Fails when a file cannot be read, written or removed.
pub(crate) fn replace_found(corpus: &Path, kept: &[PathBuf]) -> anyhow::Result<()> {
    // Some of them lie in the folder that is emptied.
    let kept =
        kept.iter().map(|path| Ok((name_of(path), fs::read(path)?))).collect::<io::Result<Vec<_>>>()?;
    let mut seeds = BTreeSet::new();
    for entry in fs::read_dir(corpus)? {
        let entry = entry?;
        if is_seed(&entry.file_name().to_string_lossy()) {
            seeds.insert(fs::read(entry.path())?);
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    for (name, input) in kept.into_iter().filter(|(_, input)| !seeds.contains(input)) {
        fs::write(corpus.join(name), input)?;
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_seed(name: &str) -> bool {
    name.starts_with(SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_names_and_marks() {
        let words = words_of(b"<<: *base, \"apiVersion\": a\n--- !!binary");
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(words, ["base", "apiVersion", "---", "binary", "<<:", "\":", "!!"]);
    }

    #[test]
    fn the_inputs_that_reach_most_beyond_the_seeds_are_kept() -> anyhow::Result<()> {
        let control = "4\n0\nc/seed-0\nc/a\nc/b\nf/c\nSTARTED 0 3\nFT 0 1 2 3\nCOV 0 9\n\
                       FT 1 1 2 3 4\nFT 2 4 5 6\nFT 3 6 7\n";
        assert_eq!(richest(control, 1)?, [Path::new("c/b")]);
        assert_eq!(richest(control, 9)?, [Path::new("c/b"), Path::new("f/c")], "c/a reaches nothing more");
        for broken in ["", "many\n0\n", "1\n0\nc/a\nFT 7 1\n"] {
            assert!(richest(broken, 9).is_err(), "{broken:?}");
        }
        Ok(())
    }

    #[test]
    fn seeds_stay_and_other_inputs_are_replaced() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("evacuation-corpus-{}", std::process::id()));
        let (corpus, kept) = (folder.join("corpus"), folder.join("kept"));
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&kept)?;
        for (path, text) in [
            ("corpus/seed-0", "a"),
            ("corpus/0a", "old"),
            ("corpus/0b", "good"),
            ("kept/0c", "new"),
            ("kept/0d", "a"),
        ] {
            fs::write(folder.join(path), text)?;
        }
        replace_found(&corpus, &[corpus.join("0b"), kept.join("0c"), kept.join("0d")])?;
        let left = fs::read_dir(&corpus)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut left = left.collect::<io::Result<Vec<_>>>()?;
        left.sort();
        fs::remove_dir_all(&folder)?;
        assert_eq!(left, ["0b", "0c", "seed-0"]);
        Ok(())
    }
}
