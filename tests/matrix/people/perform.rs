//! Carries out what a person does, with the calls that `docker` and `docker compose` make for it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::images::{self, Images};
use super::rules::act::{Act, ContainerAct, ImageAct, Target};
use crate::check::{configuration, text};
use crate::point::endpoint;
use crate::proxy::Shared;
use crate::story::Story;
use kit::lab::engine::Engine;
use kit::lab::{V1, V2, image};

/// Where a person acts.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) number: usize,
    /// What the delegate was created from, and its document.
    pub(crate) body: Value,
    pub(crate) before: Value,
    pub(crate) images: Images,
    pub(crate) proxy: Arc<Shared>,
    pub(crate) story: Arc<Story>,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Yes {
        /// The configuration that the person has asked for.
        given: Value,
        /// The container it was done to, and its name then.
        target: Option<(String, String)>,
    },
    /// The engine would not have it.
    Refused(String),
    /// The container was not there.
    Missing,
}

/// The memory that the person sets, and that with swap.
const MEMORY: u64 = 96 << 20;
/// How long the engine may take to remove a container.
const REMOVAL: Duration = Duration::from_secs(10);

impl Site {
    /// The name that the person gives to what they rename.
    pub(crate) fn kept_name(&self) -> String {
        format!("{}.kept", self.name)
    }

    pub(crate) async fn perform(&self, act: Act) -> Done {
        self.story.tell(format_args!("* {act}"));
        let done = match act {
            Act::Image(act) => self.on_image(act).await,
            Act::Container(act, target) => self.on_container(act, target).await,
        };
        if let Done::Refused(problem) = &done {
            self.story.tell(format_args!("* refused: {problem}"));
        }
        self.story.tell("* done");
        done
    }

    async fn on_image(&self, act: ImageAct) -> Done {
        let Images { old, new, .. } = &self.images;
        let tag = |source: &str, reference: &str| {
            let (repository, tag) = reference.rsplit_once(':').unwrap_or_default();
            let path = format!("/images/{}/tag?repo={repository}&tag={tag}", image(source));
            ("POST", path)
        };
        let (method, path) = match act {
            ImageAct::RemoveOld => ("DELETE", format!("/images/{old}?force=1")),
            ImageAct::RemoveNew => ("DELETE", format!("/images/{new}?force=1")),
            ImageAct::TagOld => tag(V2, old),
            ImageAct::TagNew => tag(V1, new),
        };
        if let Err(problem) = self.call(method, &path, None).await {
            return Done::Refused(problem);
        }
        if act == ImageAct::TagOld {
            let (is, other) = (
                images::id_of(&self.engine, old).await,
                images::id_of(&self.engine, &image(V2)).await,
            );
            assert_eq!(is, other, "docker tag");
        }
        Done::Yes {
            given: configuration(&self.before),
            target: None,
        }
    }

    async fn on_container(&self, act: ContainerAct, target: Target) -> Done {
        let Some((id, name)) = self.find(target).await else {
            self.story.tell(format_args!("* there is no {target}"));
            return Done::Missing;
        };
        let network = |verb: &str| format!("/networks/{}/{verb}", self.name);
        let on = |verb: &str| ("POST", format!("/containers/{id}/{verb}"), None);
        let update = |body: Value| ("POST", format!("/containers/{id}/update"), Some(body));
        let (method, path, body) = match act {
            ContainerAct::Rename => on(&format!("rename?name={}", self.kept_name())),
            ContainerAct::Stop => on("stop"),
            ContainerAct::Start => on("start"),
            ContainerAct::Restart => on("restart"),
            ContainerAct::Kill => on("kill"),
            ContainerAct::Pause => on("pause"),
            ContainerAct::Remove => ("DELETE", format!("/containers/{id}?force=1"), None),
            ContainerAct::UpdateMemory => update(json!({ "Memory": MEMORY, "MemorySwap": 2 * MEMORY })),
            ContainerAct::UpdatePolicy => update(json!({ "RestartPolicy": { "Name": self.other_policy() } })),
            ContainerAct::NetworkConnect => ("POST", network("connect"), Some(endpoint(&id))),
            ContainerAct::NetworkDisconnect => {
                let body = json!({ "Container": id, "Force": true });
                ("POST", network("disconnect"), Some(body))
            }
            ContainerAct::Compose => return self.make_anew(&id, &name).await,
        };
        if let Err(problem) = self.call(method, &path, body.as_ref()).await {
            return Done::Refused(problem);
        }
        let after = self.engine.inspect(&id).await.unwrap_or_default();
        Done::Yes {
            given: self.given(act, &after),
            target: Some((id, name)),
        }
    }

    /// Id and name of the container that has this part now.
    async fn find(&self, target: Target) -> Option<(String, String)> {
        let name = &self.name;
        let is_it = |row: &str| match target {
            Target::Serving => row == name,
            Target::Candidate => row == format!("{name}.candidate"),
            Target::Draining => row.starts_with(&format!("{name}.draining-")),
            Target::Standby => row == format!("{name}.standby"),
        };
        let rows = self.engine.list(name).await;
        let row = rows.into_iter().find(|row| is_it(&row.name))?;
        Some((row.id, row.name))
    }

    /// A restart policy that it does not have.
    fn other_policy(&self) -> &'static str {
        if text(&self.before, "/HostConfig/RestartPolicy/Name") == "unless-stopped" {
            "always"
        } else {
            "unless-stopped"
        }
    }

    /// The configuration from before with what this act has changed.
    fn given(&self, act: ContainerAct, after: &Value) -> Value {
        let (mut given, after) = (configuration(&self.before), configuration(after));
        let keys: &[&str] = match act {
            ContainerAct::UpdateMemory => &["Memory", "MemorySwap"],
            _ => &[],
        };
        // The upgrader may have taken it off by now.
        if act == ContainerAct::UpdatePolicy {
            given["HostConfig"]["RestartPolicy"]["Name"] = json!(self.other_policy());
        }
        for key in keys {
            given["HostConfig"][*key] = after["HostConfig"][*key].clone();
        }
        if matches!(
            act,
            ContainerAct::NetworkConnect | ContainerAct::NetworkDisconnect
        ) {
            given["Networks"] = after["Networks"].clone();
        }
        given
    }

    /// What `docker compose up --force-recreate` does, with a file that still names the old image. Its first version
    /// stops the old container before it creates the new one, the second one afterwards.
    async fn make_anew(&self, id: &str, name: &str) -> Done {
        let temporary = format!("{}_{name}", id.get(..12).unwrap_or(id));
        let (stop, start) = (format!("/containers/{id}/stop"), |new: &str| {
            format!("/containers/{new}/start")
        });
        let made = if self.number.is_multiple_of(2) {
            self.try_to("POST", &stop).await;
            self.try_to("POST", &format!("/containers/{id}/rename?name={temporary}"))
                .await;
            let made = self.create(name).await;
            if let Ok(new) = &made {
                self.try_to("POST", &start(new)).await;
                self.try_to("DELETE", &format!("/containers/{id}")).await;
            }
            made
        } else {
            let made = self.create(&temporary).await;
            if let Ok(new) = &made {
                self.proxy.note(name, new);
                self.try_to("POST", &stop).await;
                self.try_to("DELETE", &format!("/containers/{id}?force=1")).await;
                // One with `--rm` takes a moment to go.
                self.until_gone(id).await;
                self.try_to("POST", &format!("/containers/{new}/rename?name={name}"))
                    .await;
                self.try_to("POST", &start(new)).await;
            }
            made
        };
        let new = match made {
            Ok(new) => new,
            Err(problem) => return Done::Refused(problem),
        };
        match self.engine.inspect(&new).await {
            Some(after) => Done::Yes {
                given: configuration(&after),
                target: Some((id.to_owned(), name.to_owned())),
            },
            None => Done::Refused("it could not be started, and went with --rm".to_owned()),
        }
    }

    async fn until_gone(&self, id: &str) {
        let begin = Instant::now();
        while self.engine.inspect(id).await.is_some() && begin.elapsed() < REMOVAL {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Creates what the compose file says; its id.
    async fn create(&self, name: &str) -> Result<String, String> {
        let mut body = self.body.clone();
        body["Labels"]["com.docker.compose.project"] = json!(self.name);
        body["Labels"]["com.docker.compose.service"] = json!("delegate");
        if let Some(variables) = body["Env"].as_array_mut() {
            variables.push(json!("COMPOSED=yes"));
        }
        let path = format!("/containers/create?name={name}");
        let answer = self.call("POST", &path, Some(&body)).await?;
        let id = text(&answer, "/Id");
        self.proxy.note(name, &id);
        Ok(id)
    }

    /// A call that compose goes on after, whatever the answer.
    async fn try_to(&self, method: &str, path: &str) {
        if let Err(problem) = self.call(method, path, None).await {
            self.story.tell(format_args!("* {method} {path}: {problem}"));
        }
    }

    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let (status, answer) = self.engine.call(method, path, body).await;
        if status >= 400 || status == 304 {
            return Err(format!("{status} {}", text(&answer, "/message")));
        }
        Ok(answer)
    }
}
