//! `kubectl evacuate clean`
//!
//! # Flow
//!
//! The command reads whether the evacuation API is installed, and its drains. It lists the finished drains to
//! delete, and with `--marks` the marks that no drain accounts for. After a confirmation it carries each
//! change out.

mod change;
mod drains;
mod foreign;
mod marks;
mod reading;

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use anyhow::bail;
use clap::{ArgAction, Args};

use self::reading::Installation;
use crate::{
    Exit,
    complaint::complaint,
    connection::Connection,
    duration::duration,
    output::{is_unread, say},
};

/// Remove finished drains, and the marks of a removed installation.
///
/// Deleting a drain uncordons the nodes that it cordoned. The command lists what it would change, and asks
/// before it changes anything.
#[derive(Args, Debug)]
pub struct Clean {
    /// Only drains that ended at least this long ago, such as 24h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
    /// Remove the marks on nodes, pods and other objects, too, that no drain accounts for: cordons, taints,
    /// conditions, annotations, finalizers. For a cluster from which the evacuation API was removed.
    #[arg(long)]
    marks: bool,
    /// Only list what would be changed.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    dry_run: bool,
    /// Change without asking.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Clean {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The objects cannot be read, a drain or an Evacuation is active, or nobody confirms. A change that
    /// fails is printed, and the others are still made.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let installation = Installation::read(&client).await?;
        let mut changes = Vec::new();
        match &installation {
            Installation::Removed if !self.marks => {
                bail!(
                    "the evacuation API is not installed, so there are no drains; for its marks add --marks"
                );
            }
            Installation::Removed => {}
            Installation::Present(drains) => {
                changes.extend(drains::finished(drains, self.older_than, chrono::Utc::now()));
            }
        }
        if self.marks {
            let drains = installation.without_active()?;
            if matches!(installation, Installation::Present(_)) {
                reading::without_evacuations(&client).await?;
            }
            changes.extend(reading::marks(&client, drains).await?);
            changes.extend(foreign::finalizers(&client).await?);
        }
        if changes.is_empty() {
            say("nothing to clean")?;
            return Ok(Exit::Done);
        }
        for change in &changes {
            say(format_args!(
                "{}: {}{}",
                change.object,
                change.text,
                if self.dry_run { " (dry run)" } else { "" }
            ))?;
        }
        if self.dry_run {
            return Ok(Exit::Done);
        }
        if !self.yes && !is_confirmed(changes.len())? {
            bail!("nothing was changed: add --yes to make {}", these(changes.len()));
        }
        let mut failed = false;
        for change in &changes {
            match change.carry_out(&client).await {
                Ok(()) => say(format_args!("{} done", change.object))?,
                Err(error) if is_unread(&error) => return Err(error),
                Err(error) => {
                    failed = true;
                    eprintln!("error: {}", complaint(&error));
                }
            }
        }
        Ok(if failed { Exit::Errors } else { Exit::Done })
    }
}

/// Returns a number of changes in words.
fn these(changes: usize) -> String {
    if changes == 1 { "this change".to_owned() } else { format!("these {changes} changes") }
}

/// Asks the person at the terminal. Without a terminal nobody confirms.
fn is_confirmed(count: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("make {}? [y/N] ", these(count));
    io::stderr().flush()?;
    let mut reply = String::new();
    io::stdin().read_line(&mut reply)?;
    Ok(matches!(reply.trim(), "y" | "Y" | "yes"))
}
