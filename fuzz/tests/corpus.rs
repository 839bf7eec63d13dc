//! Each target holds on every input that was found before.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::{fs, path::Path};

use evacuation_fuzz::TARGETS;

#[test]
fn every_target_holds_on_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let inputs = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for input in inputs {
            let path = input.unwrap().path();
            eprintln!("{}", path.display());
            (target.run)(&fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} has no inputs", target.name);
    }
}

#[test]
fn every_folder_of_the_corpus_has_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in fs::read_dir(corpus).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name} has no target");
    }
}
