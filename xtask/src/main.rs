//! The project's commands: `cargo xtask demo`, `test`, `model`, `check`, `words`, `conformance`, `attack`,
//! `bench`, `fuzz`, `generate`, `krew`.
//!
//! This crate stays small so that it compiles at once: it sees to what is needed, builds the rest, and starts
//! it.

mod attack;
mod bench;
mod bounded;
mod build;
mod changed;
mod check;
mod command;
mod conformance;
mod cycles;
mod demo;
mod fuzz;
mod fuzz_corpus;
mod fuzzer;
mod generate;
mod krew;
mod libtest;
mod load;
mod model;
mod passed;
mod prerequisites;
mod report;
mod runner;
mod scratch;
mod selection;
mod suites;
mod test;
mod tokens;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the main job on a real control plane: ask, answer, evict.
    Demo(demo::Demo),
    /// Run all tests.
    Test(test::Test),
    /// Walk every state of the model of the protocol.
    Model(model::Model),
    /// Format, lints, documentation, licences: what CI checks besides the tests.
    Check(check::Check),
    /// Check the comments: their length, and the words with which they open.
    Words,
    /// Compare the machinery's example kind with a custom resource of the same schema.
    Conformance(conformance::Conformance),
    /// Print the catalogue of attacks, each with the test that plays it.
    Attack(attack::Catalogue),
    /// Measure, beside the peers.
    Bench(bench::Bench),
    /// Feed the parsers of outside bytes with generated inputs.
    Fuzz(fuzz::Fuzz),
    /// Write the files that are made from the code, or check that they are up to date.
    Generate(generate::Generate),
    /// Build the archives of the kubectl plugins, and krew's manifests.
    Krew(krew::Krew),
}

fn main() -> ExitCode {
    if let Err(error) = run(Xtask::parse().command) {
        // The words alone: a backtrace would push the report of a run out of sight.
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Test(test) => test.run(),
        Command::Model(model) => model.run(),
        Command::Check(check) => check.run(),
        Command::Words => words::check(&command::root()?),
        Command::Conformance(conformance) => conformance.run(),
        Command::Attack(catalogue) => catalogue.run(),
        Command::Bench(bench) => bench.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Generate(generate) => generate.run(),
        Command::Krew(krew) => krew.run(),
    }
}
