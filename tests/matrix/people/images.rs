//! The images of a point. Acts on an image must not affect other points, so such a point has images of its own.

use tokio::process::Command;

use crate::check::text;
use crate::point::Bench;
use kit::lab::engine::Engine;
use kit::lab::{V1, V2, image};

/// The image of the delegate and the published image.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) old_id: String,
    pub(crate) new_id: String,
    is_own: bool,
}

impl Images {
    /// The images that all points share.
    pub(crate) async fn shared(bench: &Bench) -> Self {
        Self::of(&bench.engine, image(V1), image(V2), false).await
    }

    /// Images that only this point uses. The new one is only in the registry.
    pub(crate) async fn own(engine: &Engine, number: usize) -> Self {
        let number = 20_000 + number;
        let [old, new] = ["26.01", "26.02"].map(|release| image(&format!("{release}.{number}")));
        for (from, to) in [(V1, &old), (V2, &new)] {
            let from = image(from);
            shell(&format!(
                "printf 'FROM {from}\\nLABEL io.delegate-upgrader.point={number}\\n' | docker build --quiet --tag {to} -"
            ))
            .await;
        }
        let images = Self::of(engine, old, new, true).await;
        let new = &images.new;
        shell(&format!("docker push --quiet {new} && docker rmi {new}")).await;
        images
    }

    async fn of(engine: &Engine, old: String, new: String, is_own: bool) -> Self {
        Self {
            old_id: id_of(engine, &old).await,
            new_id: id_of(engine, &new).await,
            old,
            new,
            is_own,
        }
    }

    pub(crate) async fn remove(&self, engine: &Engine) {
        for image in [&self.old, &self.new, &self.old_id, &self.new_id] {
            if self.is_own {
                let path = format!("/images/{image}?force=1");
                engine.call("DELETE", &path, None).await;
            }
        }
    }
}

async fn id_of(engine: &Engine, reference: &str) -> String {
    let path = format!("/images/{reference}/json");
    text(&engine.expect("GET", &path, None).await, "/Id")
}

async fn shell(script: &str) {
    let mut command = Command::new("sh");
    let command = command.args(["-c", script]).env("DOCKER_BUILDKIT", "0");
    let output = command.output().await.expect("sh");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {problem}");
}
