//! The probe that runs a command in the container: `HEALTH_PROBE=exec`.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::timeout;

use super::{Health, MAX_OUTPUT, Probe};
use crate::container::{ContainerId, Inspected};
use crate::engine::{Engine, EngineError};
use crate::sync::lock;
use crate::text::redact::Redactor;
use crate::text::{duration, shortened};

/// The time limit for a command.
const LIMIT: Duration = Duration::from_secs(10);
/// How often to ask for the exit code of a command that has closed its output.
const POLL: Duration = Duration::from_millis(100);
/// The exit codes with which shells and engines report a command that is missing or cannot be executed.
pub const NOT_EXECUTED: [i64; 2] = [126, 127];

/// The commands that did not end in time, by container. No engine can end one, so no second one is started beside it.
#[derive(Debug, Default)]
pub struct Unfinished(Mutex<HashMap<ContainerId, String>>);

impl Unfinished {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<ContainerId, String>) -> T) -> T {
        change(&mut lock(&self.0))
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

    /// Runs the command. Exit code 0 means healthy.
    pub async fn run<E: Engine>(&self, engine: &E, unfinished: &Unfinished) -> Health {
        match timeout(LIMIT, self.outcome(engine, unfinished)).await {
            Ok(Ok(health)) => health,
            // The engine failed, or a proxy in front of it.
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

    /// Runs the command after the endpoint could not be reached. If the command cannot run, that says nothing: the result is
    /// then the one in `unreached`, which counts a running container as healthy.
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
                // The engine forgets commands that have ended, and this one may never have started.
                Ok(Some(_)) | Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let exec = engine.create_exec(&self.id, &self.command).await?;
        unfinished.with(|commands| commands.insert(self.id.clone(), exec.clone()));
        let output = engine.start_exec(&exec).await;
        let output = output.inspect_err(|_| {
            // If the engine refuses, it has not started the command.
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
            // The command could not be executed, which says nothing about the delegate.
            code if NOT_EXECUTED.contains(&code) => Health::unhealthy(Probe::Exec, detail),
            _ => Health::unhealthy(Probe::Exec, detail).with_failed_checks(1),
        }
    }
}
