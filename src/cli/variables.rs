//! The part of `reconfigure` that a host and a cluster share: variables on the command line, and changes in the plan.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use clap::Args;

use crate::config::whole_text;
use crate::document::NewSettings;
use crate::reconcile::reconfigure::Change;
use crate::status::planned::Planned;
use crate::text::redact::looks_secret;

/// New values of variables.
#[derive(Debug, Args)]
pub(super) struct Variables {
    /// Set a variable. `ps` shows the value: --secret hides it
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Set a variable to the content of a file (`-`: standard input)
    #[arg(long, value_name = "NAME=FILE")]
    secret: Vec<String>,
    /// Remove a variable
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
}

impl Variables {
    /// Reads the new values.
    ///
    /// # Errors
    /// The problem, without any value.
    pub(super) fn read(&self, new: &mut NewSettings) -> Result<(), String> {
        for given in &self.env {
            let (name, value) = pair("--env", given)?;
            if looks_secret(name) {
                return Err(format!(
                    "--env {name}: `ps` would show what may be a secret; use --secret {name}=FILE"
                ));
            }
            set(new, name, Some(value.to_owned()))?;
            new.public.insert(name.to_owned());
        }
        for given in &self.secret {
            let (name, file) = pair("--secret", given)?;
            if file != "-" && !Path::new(file).exists() {
                // The text may be the secret itself.
                return Err(format!("--secret {name}: no such file (`-` is standard input)"));
            }
            set(new, name, Some(content(Path::new(file))?))?;
        }
        self.unset.iter().try_for_each(|name| set(new, name, None))
    }
}

pub(super) fn set(new: &mut NewSettings, name: &str, value: Option<String>) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("{name:?} is not the name of a variable"));
    }
    if name.starts_with("UPGRADER_") {
        return Err(format!(
            "{name} is a setting of delegate-upgrader; --env-file, --env, --secret and --unset are about the delegate's variables"
        ));
    }
    if new.env.insert(name.to_owned(), value).is_some() {
        return Err(format!("{name} is given twice"));
    }
    Ok(())
}

pub(super) fn pair<'a>(option: &str, given: &'a str) -> Result<(&'a str, &'a str), String> {
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

/// Adds the changes to the rows of a plan.
pub(super) fn add(changes: &[Change], plan: &mut [Planned]) {
    for row in plan {
        let Some(change) = changes.iter().find(|change| change.container == row.container) else {
            continue;
        };
        if row.action == "replace" {
            row.message = format!("{}; {}", change.changes, row.message);
        }
        row.warnings.extend(change.elsewhere.clone());
    }
}
