//! The probe by a command in the container: `HEALTH_PROBE=exec`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::{Health, MAX_OUTPUT, Probe};
use crate::container::{ContainerId, Inspected};
use crate::engine::{Engine, EngineError};
use crate::text::redact::Redactor;
use crate::text::{duration, shortened};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a command that has closed its output is asked for its exit code.
const POLL: Duration = Duration::from_millis(100);
/// The exit codes of a shell, and of an engine, for a command that cannot be executed or is not there.
pub const NOT_EXECUTED: [i64; 2] = [126, 127];

/// The commands that did not end in time, by container. No engine can end one, so no second one is started beside it.
#[derive(Debug, Default)]
pub struct Unfinished(Mutex<HashMap<ContainerId, String>>);

impl Unfinished {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<ContainerId, String>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets containers that are gone.
    pub fn keep(&self, exists: impl Fn(&ContainerId) -> bool) {
        self.with(|commands| commands.retain(|id, _| exists(id)));
    }
}

/// A command to run in a container.
pub struct ExecProbe {
    id: ContainerId,
    command: Vec<String>,
    redactor: Redactor,
}

impl ExecProbe {
    pub(super) fn new(container: &Inspected, command: &[String]) -> Self {
        Self {
            id: container.id(),
            command: command.to_vec(),
            redactor: Redactor::new(container.environment()),
        }
    }

    /// Runs it: 0 is healthy.
    pub async fn run<E: Engine>(&self, engine: &E, unfinished: &Unfinished) -> Health {
        match timeout(LIMIT, self.outcome(engine, unfinished)).await {
            Ok(Ok(health)) => health,
            // The engine failed, or a proxy before it.
            Ok(Err(error)) => {
                Health::unhealthy(Probe::Exec, format!("cannot run the health command: {error}"))
            }
            Err(_) => {
                let limit = duration::text(LIMIT);
                let detail = format!("the health command did not end within {limit}");
                Health::unhealthy(Probe::Exec, detail).with_failed_checks(1)
            }
        }
    }

    /// The same after the endpoint could not be reached. A command that cannot be run says nothing: then the container is
    /// healthy for running, as `unreached` has it.
    pub async fn instead_of<E: Engine>(
        &self,
        unreached: Health,
        engine: &E,
        unfinished: &Unfinished,
    ) -> Health {
        let health = self.run(engine, unfinished).await;
        if health.is_healthy() || health.failed_checks > 0 {
            return health;
        }
        Health {
            detail: format!("{}; {}", unreached.detail, health.detail),
            ..unreached
        }
    }

    async fn outcome<E: Engine>(&self, engine: &E, unfinished: &Unfinished) -> Result<Health, EngineError> {
        if let Some(exec) = unfinished.with(|commands| commands.get(&self.id).cloned()) {
            match engine.exec_exit_code(&exec).await {
                Ok(None) => {
                    let detail = "the health command of an earlier check has not ended yet";
                    return Ok(Health::unhealthy(Probe::Exec, detail).with_failed_checks(1));
                }
                // The engine forgets those that have ended, and this one may never have been started.
                Ok(Some(_)) | Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let exec = engine.create_exec(&self.id, &self.command).await?;
        unfinished.with(|commands| commands.insert(self.id.clone(), exec.clone()));
        let output = engine.start_exec(&exec).await;
        let output = output.inspect_err(|_| {
            // An engine that refuses has not started it.
            unfinished.with(|commands| commands.remove(&self.id));
        })?;
        let code = loop {
            match engine.exec_exit_code(&exec).await? {
                Some(code) => break code,
                None => tokio::time::sleep(POLL).await,
            }
        };
        unfinished.with(|commands| commands.remove(&self.id));
        Ok(self.verdict(code, &output))
    }

    fn verdict(&self, code: i64, output: &str) -> Health {
        let mut detail = format!("the health command exits with {code}");
        let output = self.redactor.line(output.trim());
        if code != 0 && !output.is_empty() {
            detail.push_str(": ");
            detail.push_str(&shortened(&output, MAX_OUTPUT));
        }
        match code {
            0 => Health::healthy(Probe::Exec, detail),
            // The command itself could not be run, which says nothing about the delegate.
            code if NOT_EXECUTED.contains(&code) => Health::unhealthy(Probe::Exec, detail),
            _ => Health::unhealthy(Probe::Exec, detail).with_failed_checks(1),
        }
    }
}
