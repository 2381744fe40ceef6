//! `reconfigure`: gives delegates other settings, by the proof of an upgrade; and `plan reconfigure`.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use tracing::{info, warn};

use super::asker::Asker;
use super::named_delegate::{failed, serve};
use super::plan::show;
use super::run::made;
use super::{Exit, fail};
use crate::app::{self, Upgrader};
use crate::config::{Settings, read_variables, whole_text};
use crate::container::label;
use crate::document::{IDENTITY, MemoryLimit, NewSettings};
use crate::reconcile::reconfigure::{Change, Whom};
use crate::text::redact::looks_secret;

/// The delegates, and their new settings.
#[derive(Debug, Args)]
pub(super) struct Reconfigure {
    /// The delegate's container, by name or id
    #[arg(value_parser = super::container, required_unless_present = "workload")]
    container: Option<String>,
    /// All replicas with this DELEGATE_NAME, one at a time; a failure halts the others
    #[arg(long, value_name = "DELEGATE_NAME", conflicts_with = "container")]
    workload: Option<String>,
    /// Set a variable. `ps` shows the value: --secret and --env-file hide it
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Set a variable to the content of a file (`-`: standard input)
    #[arg(long, value_name = "NAME=FILE")]
    secret: Vec<String>,
    /// Remove a variable
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Set a label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Set the memory limit, such as 3g
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    #[command(flatten)]
    asker: Asker,
}

impl Reconfigure {
    fn whom(&self) -> Whom {
        match (&self.container, &self.workload) {
            (None, Some(workload)) => Whom::Workload(workload.clone()),
            (container, _) => Whom::Container(container.clone().unwrap_or_default()),
        }
    }

    /// The new settings, or the exit after the problem was printed.
    fn settings(&self, file: Option<&Path>) -> Result<NewSettings, Exit> {
        self.read(file).map_err(|problem| fail(problem, Exit::Usage))
    }

    /// Reads the new settings; `file` has further variables.
    ///
    /// # Errors
    /// The problem, without any value.
    fn read(&self, file: Option<&Path>) -> Result<NewSettings, String> {
        let mut new = NewSettings::default();
        for (name, value) in file.map(read_variables).transpose()?.into_iter().flatten() {
            set(&mut new, &name, Some(value))?;
        }
        for given in &self.env {
            let (name, value) = pair("--env", given)?;
            if looks_secret(name) {
                return Err(format!(
                    "--env {name}: `ps` would show what may be a secret; use --secret {name}=FILE"
                ));
            }
            set(&mut new, name, Some(value.to_owned()))?;
        }
        for given in &self.secret {
            let (name, file) = pair("--secret", given)?;
            set(&mut new, name, Some(content(Path::new(file))?))?;
        }
        for name in &self.unset {
            set(&mut new, name, None)?;
        }
        for given in &self.label {
            let (name, value) = pair("--label", given)?;
            if label::OURS.contains(&name) || name.contains([',', ' ']) {
                return Err(format!("--label {name}: not a label that an owner gives"));
            }
            new.labels.insert(name.to_owned(), Some(value.to_owned()));
        }
        if let Some(text) = &self.memory {
            let memory =
                bytes(text).ok_or_else(|| format!("--memory {text}: expected a size such as 3g or 2048m"))?;
            new.memory = Some(MemoryLimit { memory, swap: None });
        }
        if new.is_empty() {
            return Err(
                "nothing to change: give --env, --env-file, --secret, --unset, --label or --memory"
                    .to_owned(),
            );
        }
        Ok(new)
    }
}

fn set(new: &mut NewSettings, name: &str, value: Option<String>) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("{name:?} is not the name of a variable"));
    }
    if IDENTITY.contains(&name) {
        return Err(format!(
            "{name}: with another one it would be another delegate; start that one yourself"
        ));
    }
    if new.env.insert(name.to_owned(), value).is_some() {
        return Err(format!("{name} is given twice"));
    }
    Ok(())
}

fn pair<'a>(option: &str, given: &'a str) -> Result<(&'a str, &'a str), String> {
    let pair = given.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.ok_or_else(|| format!("{option}: expected NAME=…, with an equals sign"))
}

/// The content of a file, without the line break at its end.
fn content(path: &Path) -> Result<String, String> {
    let source: Result<Box<dyn Read>, _> = match path.to_str() {
        Some("-") => Ok(Box::new(stdin())),
        _ => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let text = whole_text(path, source)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match text.strip_suffix('\r').unwrap_or(text) {
        "" => Err(format!("{}: it is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}

/// A size as `docker run --memory` takes it: bytes, or with b, k, m or g.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Gives the delegates their new settings; `file` has further variables.
pub(super) async fn reconfigure(
    settings: &Settings,
    given: Reconfigure,
    file: Option<PathBuf>,
    json: bool,
) -> Result<Exit, Exit> {
    let new = given.settings(file.as_deref())?;
    let whom = given.whom();
    let mut elsewhere = Vec::new();
    let start = async |upgrader: &mut Upgrader| {
        let all = upgrader.reconfigure(&whom, &new, given.asker.into()).await?;
        for Change {
            container, changes, ..
        } in &all
        {
            info!(container, "changing settings: {changes}");
        }
        elsewhere = all;
        Ok(())
    };
    let exit = serve(settings, false, json, start).await?;
    if exit != Exit::Ok {
        return Ok(exit);
    }
    for Change {
        container, elsewhere, ..
    } in elsewhere
    {
        if let Some(what) = elsewhere {
            warn!(container, "{what}");
        } else {
            info!(container, "its script, unit or playbook must be changed as well");
        }
    }
    Ok(exit)
}

/// Shows what `reconfigure` would do.
pub(super) async fn plan(
    settings: &Settings,
    given: Reconfigure,
    file: Option<PathBuf>,
    json: bool,
) -> Result<Exit, Exit> {
    let new = given.settings(file.as_deref())?;
    let mut upgrader = made(app::looking(settings).await)?;
    let changes = upgrader
        .reconfigure(&given.whom(), &new, given.asker.into())
        .await
        .map_err(failed)?;
    let mut plan = upgrader.planned().await.map_err(failed)?;
    for (row, change) in plan.iter_mut().filter_map(|row| {
        let change = changes.iter().find(|change| change.container == row.container)?;
        Some((row, change))
    }) {
        if row.action == "replace" {
            row.message = format!("{}; {}", change.changes, row.message);
        }
        row.warnings.extend(change.elsewhere.clone());
    }
    Ok(show(&plan, json, ""))
}
