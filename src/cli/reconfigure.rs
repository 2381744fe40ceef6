//! `reconfigure`: gives delegates other settings, by the proof of an upgrade; and `plan reconfigure`.

use std::path::{Path, PathBuf};

use clap::Args;
use tracing::info;

use super::asker::Asker;
use super::named_delegate::{failed, serve};
use super::plan::show;
use super::run::made;
use super::variables::{Variables, add, pair, set};
use super::{Exit, fail};
use crate::app::{self, Upgrader};
use crate::config::{Settings, read_variables};
use crate::container::label;
use crate::document::{MemoryLimit, NewSettings};
use crate::reconcile::reconfigure::Whom;

/// The delegates, and their new settings.
#[derive(Debug, Args)]
pub(super) struct Reconfigure {
    /// The delegate's container, by name or id
    #[arg(value_parser = super::container, required_unless_present = "workload")]
    container: Option<String>,
    /// All replicas with this DELEGATE_NAME, one at a time; a failure halts the others
    #[arg(long, value_name = "DELEGATE_NAME", conflicts_with = "container")]
    workload: Option<String>,
    #[command(flatten)]
    variables: Variables,
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
        self.variables.read(&mut new)?;
        for given in &self.label {
            let (name, value) = pair("--label", given)?;
            // Opted out, the delegate could not be reported as changed.
            let is_ours = label::OURS.contains(&name) || label::OPT_OUT.contains(&name);
            if is_ours || name.contains([',', ' ']) {
                return Err(format!("--label {name}: recreate the delegate to set it"));
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
    let start = async |upgrader: &mut Upgrader| {
        let changes = upgrader
            .reconfigure(&given.whom(), &new, given.asker.into())
            .await?;
        for it in changes {
            let elsewhere = "its script, unit or playbook must be changed as well";
            let elsewhere = it.elsewhere.as_deref().unwrap_or(elsewhere);
            info!(
                container = it.container,
                "changing settings: {}; {elsewhere}", it.changes
            );
        }
        Ok(())
    };
    serve(settings, false, json, start).await
}

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
    add(&changes, &mut plan);
    Ok(show(&plan, json, ""))
}
