//! A person's acts on the host, by the calls that `docker` and `docker compose` make for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::images::Images;
use crate::check::{configuration, text};
use crate::point::endpoint;
use crate::proxy::Shared;
use crate::story::Story;
use kit::lab::LABEL;
use kit::lab::engine::Engine;

/// The limit that a person sets for memory, and for memory with swap.
const MEMORY: u64 = 96 << 20;
/// The maximum time for Docker to remove a container.
const REMOVAL: Duration = Duration::from_secs(10);

/// The container that a person acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Serving,
    Candidate,
    /// Retired or draining.
    Old,
}

/// One act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Rename(Target),
    Update(Target),
    Stop(Target),
    Pause(Target),
    Restart(Target),
    Remove(Target),
    /// `docker network connect`.
    Connect,
    /// `docker compose up --force-recreate`.
    Compose,
    /// `docker rmi -f` of the previous image, and of the published one.
    RmiOld,
    RmiNew,
    /// `docker container prune`.
    Prune,
}

impl Act {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let verbs = [
            Self::Rename,
            Self::Update,
            Self::Stop,
            Self::Pause,
            Self::Restart,
            Self::Remove,
        ];
        let targets = [Target::Serving, Target::Candidate, Target::Old];
        let on_containers = verbs.into_iter().flat_map(move |verb| targets.map(verb));
        let others = [
            Self::Connect,
            Self::Compose,
            Self::RmiOld,
            Self::RmiNew,
            Self::Prune,
        ];
        on_containers.chain(others)
    }

    pub(crate) fn target(self) -> Option<Target> {
        match self {
            Self::Rename(target)
            | Self::Update(target)
            | Self::Stop(target)
            | Self::Pause(target)
            | Self::Restart(target)
            | Self::Remove(target) => Some(target),
            Self::Connect | Self::Compose => Some(Target::Serving),
            Self::RmiOld | Self::RmiNew | Self::Prune => None,
        }
    }

    /// Whether it changes the settings of the container in service, and nothing else.
    pub(crate) fn changes_settings(self) -> bool {
        matches!(self, Self::Update(Target::Serving) | Self::Connect)
    }

    /// Whether it interrupts its target.
    pub(crate) fn interrupts(self) -> bool {
        matches!(
            self,
            Self::Stop(_) | Self::Pause(_) | Self::Restart(_) | Self::Remove(_) | Self::Compose
        )
    }
}

/// `rename-serving`, `prune`.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = format!("{self:?}").to_lowercase().replace('(', "-");
        f.write_str(words.trim_end_matches(')'))
    }
}

/// The result of an act.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Yes(Given),
    /// Docker refused.
    Refused(String),
    /// The container was not there.
    Missing,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The configuration that the person requested.
    pub(crate) configuration: Value,
    /// The id of the act's target.
    pub(crate) target: Option<String>,
    /// Whether a container of the delegate is left after it.
    pub(crate) something_is_left: bool,
}

/// The place of an act: the engine, the delegate and its images.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    /// The delegate's create body, and its document.
    pub(crate) body: Value,
    pub(crate) before: Value,
    pub(crate) images: Images,
    pub(crate) proxy: Arc<Shared>,
    pub(crate) story: Arc<Story>,
}

impl Site {
    /// The name that a person gives to the container that they rename.
    pub(crate) fn kept_name(&self) -> String {
        format!("{}.kept", self.name)
    }

    pub(crate) async fn perform(&self, act: Act) -> Done {
        self.story.tell(format_args!("* {act}"));
        let target = match act.target() {
            Some(target) => self.find(target).await,
            None => Some(String::new()),
        };
        let Some(id) = target else {
            self.story.tell("* the container is not there");
            return Done::Missing;
        };
        let done = match act {
            Act::Compose => self.recreate(&id).await,
            _ => self.call_for(act, &id).await,
        };
        match done {
            Ok(configuration) => {
                let left = self.engine.list(&self.name).await;
                self.story.tell(format_args!("* done; left: {}", left.len()));
                Done::Yes(Given {
                    configuration,
                    something_is_left: !left.is_empty(),
                    target: act.target().map(|_| id),
                })
            }
            Err(problem) => {
                self.story.tell(format_args!("* refused: {problem}"));
                Done::Refused(problem)
            }
        }
    }

    /// The id of the container that is the target now.
    async fn find(&self, target: Target) -> Option<String> {
        let rows = self.engine.list(&self.name).await;
        let row = rows.into_iter().find(|row| {
            let part = row.name.strip_prefix(&self.name).unwrap_or_default();
            match target {
                Target::Serving => part.is_empty(),
                Target::Candidate => part == ".candidate",
                Target::Old => part == ".retired" || part.starts_with(".draining-"),
            }
        });
        Some(row?.id)
    }

    /// Makes the call of an act, and returns the configuration that the person requested.
    async fn call_for(&self, act: Act, id: &str) -> Result<Value, String> {
        let on = |verb: &str| ("POST", format!("/containers/{id}/{verb}"), None);
        let images = &self.images;
        let (method, path, body) = match act {
            Act::Rename(_) => on(&format!("rename?name={}", self.kept_name())),
            Act::Update(_) => {
                let body = json!({ "Memory": MEMORY, "MemorySwap": 2 * MEMORY });
                ("POST", format!("/containers/{id}/update"), Some(body))
            }
            Act::Stop(_) => on("stop"),
            Act::Pause(_) => on("pause"),
            Act::Restart(_) => on("restart"),
            Act::Remove(_) | Act::Compose => ("DELETE", format!("/containers/{id}?force=1"), None),
            Act::Connect => {
                let path = format!("/networks/{}/connect", self.name);
                ("POST", path, Some(endpoint(id)))
            }
            Act::RmiOld => ("DELETE", format!("/images/{}?force=1", images.old), None),
            Act::RmiNew => ("DELETE", format!("/images/{}?force=1", images.new), None),
            Act::Prune => {
                let filters = format!("{{%22label%22:[%22{LABEL}={}%22]}}", self.name);
                ("POST", format!("/containers/prune?filters={filters}"), None)
            }
        };
        self.call(method, &path, body.as_ref()).await?;
        let mut given = configuration(&self.before);
        // A container with `--rm` takes a moment to vanish.
        let vanishes = given["HostConfig"]["AutoRemove"] == true && matches!(act, Act::Stop(_));
        if vanishes || matches!(act, Act::Remove(_)) {
            self.until_gone(id, vanishes).await;
        }
        let after = configuration(&self.engine.inspect(id).await.unwrap_or_default());
        match act {
            Act::Update(_) => {
                for key in ["Memory", "MemorySwap"] {
                    given["HostConfig"][key] = after["HostConfig"][key].clone();
                }
            }
            Act::Connect => given["Networks"] = after["Networks"].clone(),
            _ => {}
        }
        Ok(given)
    }

    /// Waits for the end of a removal; only for a moment if the container may stay.
    async fn until_gone(&self, id: &str, may_stay: bool) {
        let longest = if may_stay { REMOVAL / 10 } else { REMOVAL };
        let begin = Instant::now();
        while self.engine.inspect(id).await.is_some() && begin.elapsed() < longest {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Recreates the container as Compose does, with a file that still names the old image.
    async fn recreate(&self, id: &str) -> Result<Value, String> {
        let name = &self.name;
        let mut body = self.body.clone();
        body["Labels"]["com.docker.compose.project"] = json!(name);
        body["Labels"]["com.docker.compose.service"] = json!("delegate");
        if let Some(variables) = body["Env"].as_array_mut() {
            variables.push(json!("COMPOSED=yes"));
        }
        let temporary = format!("{}_{name}", id.get(..12).unwrap_or(id));
        let create = format!("/containers/create?name={temporary}");
        let new = text(&self.call("POST", &create, Some(&body)).await?, "/Id");
        self.proxy.note(name, &new);
        for (method, path) in [
            ("POST", format!("/containers/{id}/stop")),
            ("DELETE", format!("/containers/{id}?force=1")),
            ("POST", format!("/containers/{new}/rename?name={name}")),
            ("POST", format!("/containers/{new}/start")),
        ] {
            // Compose continues, whatever the answer.
            if let Err(problem) = self.call(method, &path, None).await {
                self.story.tell(format_args!("* {method} {path}: {problem}"));
            }
            if method == "DELETE" {
                self.until_gone(id, false).await;
            }
        }
        let after = self.engine.inspect(&new).await;
        let after = after.ok_or("it could not be started, and vanished with --rm")?;
        Ok(configuration(&after))
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let (status, answer) = self.engine.call(method, path, body).await;
        if status >= 400 || status == 304 {
            return Err(format!("{status} {}", text(&answer, "/message")));
        }
        Ok(answer)
    }
}
