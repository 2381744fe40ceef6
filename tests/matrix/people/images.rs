//! The images of a point. What is done to an image must not reach other points, so such a point has images of its own.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::check::text;
use crate::point::Bench;
use kit::lab::engine::Engine;
use kit::lab::{V1, V2, image};

/// How long a command may take while many others run.
const LONGEST: Duration = Duration::from_secs(300);

/// The image of the delegate and the one that is published.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) old_id: String,
    pub(crate) new_id: String,
    is_own: bool,
}

impl Images {
    /// Those that all points share.
    pub(crate) async fn shared(bench: &Bench) -> Self {
        let (old, new) = (image(V1), image(V2));
        Self {
            old_id: bench.old_image_id.clone(),
            new_id: id_of(&bench.engine, &new).await,
            old,
            new,
            is_own: false,
        }
    }

    /// Images that only this point uses. The new one is in the registry only.
    pub(crate) async fn own(engine: &Engine, number: usize) -> Self {
        let number = 20_000 + number;
        let (old, new) = (
            image(&format!("26.01.{number}")),
            image(&format!("26.02.{number}")),
        );
        build(&image(V1), &old, number).await;
        build(&image(V2), &new, number).await;
        docker(&["push", "--quiet", &new], "").await;
        let images = Self {
            old_id: id_of(engine, &old).await,
            new_id: id_of(engine, &new).await,
            old,
            new,
            is_own: true,
        };
        docker(&["rmi", &images.new], "").await;
        images
    }

    /// The tag of the old one.
    pub(crate) fn old_tag(&self) -> String {
        let tag = self.old.rsplit(':').next();
        tag.unwrap_or_default().to_owned()
    }

    pub(crate) async fn remove(&self, engine: &Engine) {
        if !self.is_own {
            return;
        }
        for image in [&self.old, &self.new, &self.old_id, &self.new_id] {
            let path = format!("/images/{image}?force=1");
            engine.call("DELETE", &path, None).await;
        }
    }
}

/// The id of an image, nothing if it is not there.
pub(crate) async fn id_of(engine: &Engine, reference: &str) -> String {
    let (_, document) = engine
        .call("GET", &format!("/images/{reference}/json"), None)
        .await;
    text(&document, "/Id")
}

/// The same image with an id of its own. Both images of a point have the same label.
async fn build(from: &str, reference: &str, number: usize) {
    let dockerfile = format!("FROM {from}\nLABEL io.delegate-upgrader.point={number}\n");
    docker(&["build", "--quiet", "--tag", reference, "-"], &dockerfile).await;
}

async fn docker(arguments: &[&str], input: &str) {
    let mut child = Command::new("docker")
        .args(arguments)
        .env("DOCKER_BUILDKIT", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("docker");
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = timeout(LONGEST, child.wait_with_output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("docker {arguments:?} does not end"))
        .expect("docker ends");
    assert!(
        output.status.success(),
        "docker {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
