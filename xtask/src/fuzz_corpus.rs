//! Inputs of the fuzzer in the repository.

use std::{collections::BTreeSet, fmt::Write as _, fs, io, path::Path};

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

/// Replaces the inputs of a target by those of a folder. Seeds stay, and no input is there twice.
///
/// # Errors
///
/// Fails when a file cannot be read, written or removed.
pub(crate) fn replace_found(corpus: &Path, kept: &Path) -> anyhow::Result<()> {
    let mut seeds = BTreeSet::new();
    for entry in fs::read_dir(corpus)? {
        let entry = entry?;
        if is_seed(&entry.file_name().to_string_lossy()) {
            seeds.insert(fs::read(entry.path())?);
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(kept)? {
        let entry = entry?;
        let input = fs::read(entry.path())?;
        if !seeds.contains(&input) {
            fs::write(corpus.join(entry.file_name()), input)?;
        }
    }
    Ok(())
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
    fn seeds_stay_and_other_inputs_are_replaced() -> anyhow::Result<()> {
        let folder = std::env::temp_dir().join(format!("evacuation-corpus-{}", std::process::id()));
        let (corpus, kept) = (folder.join("corpus"), folder.join("kept"));
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&kept)?;
        for (path, text) in
            [("corpus/seed-0", "a"), ("corpus/0a", "old"), ("kept/0b", "new"), ("kept/0c", "a")]
        {
            fs::write(folder.join(path), text)?;
        }
        replace_found(&corpus, &kept)?;
        let left = fs::read_dir(&corpus)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut left = left.collect::<io::Result<Vec<_>>>()?;
        left.sort();
        fs::remove_dir_all(&folder)?;
        assert_eq!(left, ["0b", "seed-0"]);
        Ok(())
    }
}
