//! A real engine as a lab: the engine that `DOCKER_HOST` names.

use std::collections::HashMap;
use std::env;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use bollard::Docker;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{
    CreateImageOptions, ListContainersOptions, ListImagesOptions, ListNetworksOptions,
    PruneContainersOptions, RemoveContainerOptions, RemoveImageOptions, UploadToContainerOptions,
};
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{DockerEngine, EngineHost};
use futures_util::{FutureExt, TryStreamExt};
use serde_json::{Value, json};

use super::by_hand::by_hand;
use super::lab::Lab;
use super::tar::Archive;
use crate::twin::{Behaviour, OnStop, OperatorAction, Wellness};

/// The label by which a run's containers, images and networks are found and removed.
const LABEL: &str = "io.delegate-upgrader.test";
/// A statically linked busybox.
const BUSYBOX: &str = "/bin/busybox";

/// A real engine; the lab removes everything that it created there.
pub struct RealLab {
    engine: DockerEngine,
    docker: Docker,
    run: String,
    serial: AtomicU16,
}

impl RealLab {
    /// Runs a check in a lab of its own and cleans up after it, however the check ends.
    pub async fn check(name: &str, check: impl AsyncFnOnce(&Self)) {
        let lab = Self::connect(name);
        let outcome = AssertUnwindSafe(check(&lab)).catch_unwind().await;
        lab.clean_up().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }

    fn connect(name: &str) -> Self {
        let address = env::var("DOCKER_HOST").unwrap_or_default();
        let host = host(&address).unwrap_or_else(|| {
            panic!(
                "these tests need a real engine: DOCKER_HOST is {address:?}, not unix://PATH or tcp://HOST:PORT. \
                 `make test` finds or starts one"
            )
        });
        let docker = match &host {
            EngineHost::Unix(path) => {
                Docker::connect_with_unix(&path.to_string_lossy(), 120, bollard::API_DEFAULT_VERSION)
            }
            EngineHost::Tcp { address, .. } => {
                Docker::connect_with_http(address, 120, bollard::API_DEFAULT_VERSION)
            }
        };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let name = name.replace('_', "-");
        Self {
            engine: DockerEngine::connect(&host).unwrap(),
            docker: docker.unwrap_or_else(|error| panic!("the engine at {address}: {error}")),
            run: format!("{}-{name}", since.as_micros() % 1_000_000_000_000),
            serial: AtomicU16::new(0),
        }
    }

    fn next(&self) -> u16 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    fn labelled(&self) -> HashMap<String, Vec<String>> {
        HashMap::from([("label".to_owned(), vec![format!("{LABEL}={}", self.run)])])
    }

    fn fragile(&self) -> PathBuf {
        env::temp_dir().join(format!("contract-{}", self.run))
    }

    /// Failures here must not hide the failure that a test found.
    async fn clean_up(&self) {
        let filters = Some(self.labelled());
        let containers = ListContainersOptions {
            all: true,
            filters: filters.clone(),
            ..Default::default()
        };
        for row in self
            .docker
            .list_containers(Some(containers))
            .await
            .unwrap_or_default()
        {
            let force = RemoveContainerOptions {
                force: true,
                v: true,
                link: false,
            };
            let _gone = self
                .docker
                .remove_container(&row.id.unwrap_or_default(), Some(force))
                .await;
        }
        // The engine made a directory in its place.
        let _gone = std::fs::remove_dir(self.fragile());
        let networks = ListNetworksOptions {
            filters: filters.clone(),
        };
        for network in self
            .docker
            .list_networks(Some(networks))
            .await
            .unwrap_or_default()
        {
            let _gone = self.docker.remove_network(&network.id.unwrap_or_default()).await;
        }
        let images = ListImagesOptions {
            all: true,
            filters,
            ..Default::default()
        };
        for image in self.docker.list_images(Some(images)).await.unwrap_or_default() {
            let force = RemoveImageOptions {
                force: true,
                ..Default::default()
            };
            let _gone = self.docker.remove_image(&image.id, Some(force), None).await;
        }
    }
}

impl Lab for RealLab {
    type Engine = DockerEngine;

    fn engine(&self) -> &DockerEngine {
        &self.engine
    }

    fn name(&self, base: &str) -> String {
        format!("contract-{}-{base}", self.run)
    }

    async fn image_named(&self, reference: &str, behaviour: Behaviour) {
        let command = json!(command(&behaviour));
        let (repository, tag) = reference.rsplit_once(':').unwrap();
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(repository.to_owned()),
            tag: Some(tag.to_owned()),
            changes: vec![
                format!("CMD {command}"),
                "ENV PATH=/bin".to_owned(),
                format!("LABEL {LABEL}={}", self.run),
            ],
            ..Default::default()
        };
        let layer = bollard::body_full(layer(&behaviour).into());
        let made: Result<Vec<_>, _> = self
            .docker
            .create_image(Some(options), Some(layer), None)
            .try_collect()
            .await;
        made.unwrap_or_else(|error| panic!("the image {reference}: {error}"));
    }

    async fn image(&self, behaviour: Behaviour) -> String {
        let reference = format!("contract/{}-{}:1", self.run, self.next());
        self.image_named(&reference, behaviour).await;
        reference
    }

    async fn copy_in(&self, id: &ContainerId, path: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let mut archive = Archive::of(now.as_secs());
        archive.file(path.trim_start_matches('/'), b"content");
        let options = UploadToContainerOptions {
            path: "/".to_owned(),
            ..Default::default()
        };
        let archive = bollard::body_full(archive.finish().into());
        let sent = self
            .docker
            .upload_to_container(id.as_str(), Some(options), archive)
            .await;
        sent.unwrap_or_else(|error| panic!("{path} into {id}: {error}"));
    }

    async fn by_hand(&self, action: OperatorAction) -> Result<(), String> {
        if action == OperatorAction::PruneContainers {
            let ours = PruneContainersOptions {
                filters: Some(self.labelled()),
            };
            let pruned = self.docker.prune_containers(Some(ours)).await;
            return pruned.map(|_| ()).map_err(|error| error.to_string());
        }
        by_hand(&self.docker, &self.engine, action).await
    }

    async fn network(&self) -> String {
        let name = format!("contract-{}-{}", self.run, self.next());
        let request = NetworkCreateRequest {
            name: name.clone(),
            labels: Some(HashMap::from([(LABEL.to_owned(), self.run.clone())])),
            ..Default::default()
        };
        self.docker.create_network(request).await.unwrap();
        name
    }

    fn body(&self, reference: &str) -> Value {
        json!({
            "Image": reference,
            "Labels": { LABEL: self.run },
            "Env": [],
            "HostConfig": {},
        })
    }

    fn fragile_binds(&self) -> Value {
        let file = self.fragile();
        std::fs::write(&file, "").expect("a file");
        json!([format!("{}:/fragile", file.display())])
    }

    fn take_away(&self) {
        std::fs::remove_file(self.fragile()).expect("a file");
    }
}

fn host(address: &str) -> Option<EngineHost> {
    if let Some(path) = address.strip_prefix("unix://") {
        return Some(EngineHost::Unix(PathBuf::from(path)));
    }
    let address = address.strip_prefix("tcp://")?.trim_end_matches('/').to_owned();
    Some(EngineHost::Tcp { address, tls: None })
}

/// The command that gives a container its behaviour.
fn command(behaviour: &Behaviour) -> Vec<String> {
    if behaviour.start_error.is_some() {
        return vec!["/bin/there-is-no-such-program".to_owned()];
    }
    let seconds = |time: Duration| time.as_secs_f64();
    let on_stop = match behaviour.on_stop {
        OnStop::Drain(time) => format!("trap 'sleep {}; exit 0' TERM", seconds(time)),
        OnStop::Ignore => "trap '' TERM".to_owned(),
    };
    let mut prints = String::new();
    for (line, stream) in behaviour.prints.iter().zip(["1", "2"].into_iter().cycle()) {
        // Lines that arrive at the same time on two streams have no order.
        prints.extend(["echo '", line, "' >&", stream, "; sleep 0.1; "]);
    }
    let life = match behaviour.exits {
        Some(exit) => format!("sleep {} & wait $!; exit {}", seconds(exit.after), exit.code),
        None => "while :; do sleep 1 & wait $!; done".to_owned(),
    };
    vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        format!("{on_stop}; {prints}{life}"),
    ]
}

/// A layer with a busybox, and a probe with the result that the behaviour says.
fn layer(behaviour: &Behaviour) -> Vec<u8> {
    let busybox = std::fs::read(BUSYBOX)
        .unwrap_or_else(|error| panic!("{BUSYBOX}: {error}; the package busybox-static has it"));
    let healthy = match behaviour.health {
        Wellness::Steady => true,
        Wellness::Never => false,
        Wellness::Flaps { .. } | Wellness::For(_) => panic!("a real probe does not change its mind"),
    };
    let probe = format!("#!/bin/sh\nexit {}\n", i32::from(!healthy));
    let mut archive = Archive::default();
    archive.file("bin/busybox", &busybox);
    archive.file("bin/probe", probe.as_bytes());
    archive.link("bin/sh", "busybox");
    archive.link("bin/sleep", "busybox");
    archive.finish()
}
