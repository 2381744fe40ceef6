//! Commands in running containers.

use std::time::Duration;

use delegate_upgrader::engine::EngineError;

use super::commands::{Outcome, conflict};
use super::container::{At, Status};
use super::state::State;

/// A command in a container.
pub(super) struct Exec {
    id: String,
    container: String,
    command: Vec<String>,
    /// The time and the exit code of its end, once it was started.
    end: Option<(At, i64)>,
}

impl State {
    pub(super) fn create_exec(&mut self, id: &str, command: &[String]) -> Outcome<String> {
        let index = self.find(id)?;
        let container = &self.containers[index];
        match container.status {
            Status::Running(_) => {}
            Status::Paused(_) => {
                return conflict(format!(
                    "Container {id} is paused, unpause the container before exec"
                ));
            }
            _ => return conflict(format!("Container {id} is not running")),
        }
        let container = container.id.clone();
        let id = self.new_id();
        self.execs.push(Exec {
            id: id.clone(),
            container,
            command: command.to_vec(),
            end: None,
        });
        Ok(id)
    }

    /// Its output, and the time of its end.
    pub(super) fn start_exec(&mut self, id: &str) -> Outcome<(String, At)> {
        let number = self.exec(id)?;
        let index = self.find(&self.execs[number].container)?;
        let is_healthy = self.containers[index].answers(self.now, self.manager_reachable);
        let ran = run(&self.execs[number].command, is_healthy == Some(true));
        let end = self.now + ran.time;
        self.execs[number].end = Some((end, ran.code));
        Ok((ran.output, end))
    }

    pub(super) fn exec_exit_code(&self, id: &str) -> Outcome<Option<i64>> {
        match self.execs[self.exec(id)?].end {
            Some((at, code)) => Ok((at <= self.now).then_some(code)),
            None => Err(EngineError::NotFound(format!("exec {id} was not started"))),
        }
    }

    fn exec(&self, id: &str) -> Outcome<usize> {
        let place = self.execs.iter().position(|exec| exec.id == id);
        place.ok_or_else(|| EngineError::NotFound(format!("No such exec instance: {id}")))
    }
}

struct Ran {
    output: String,
    time: Duration,
    code: i64,
}

/// Runs a script of `echo WORD`, `sleep SECONDS` and `exit CODE`; every other program is a probe of the delegate's health.
fn run(command: &[String], is_healthy: bool) -> Ran {
    let mut ran = Ran {
        output: String::new(),
        time: Duration::ZERO,
        code: 0,
    };
    let mut lines = Vec::new();
    let script = match command {
        [shell, option, script] if shell == "/bin/sh" && option == "-c" => script.as_str(),
        _ => "probe",
    };
    for line in script.split("; ") {
        match line.split_once(' ') {
            Some(("echo", word)) => lines.push(word),
            Some(("sleep", seconds)) => ran.time += Duration::from_secs(seconds.parse().unwrap()),
            Some(("exit", code)) => ran.code = code.parse().unwrap(),
            _ => ran.code = i64::from(!is_healthy),
        }
    }
    // The real client keeps the last three lines.
    let last = lines.split_off(lines.len().saturating_sub(3));
    ran.output = last.into_iter().flat_map(|line| [line, "\n"]).collect();
    ran
}
