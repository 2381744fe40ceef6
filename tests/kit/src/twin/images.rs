//! Images on the twin's host and in its registry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::engine::EngineError;
use serde_json::{Value, json};

use super::behaviour::Behaviour;

/// An image, on the host or in the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// `sha256:…`.
    pub id: String,
    /// The image's defaults, in the words of its document: Env, Cmd, Labels, Healthcheck, …
    pub config: Value,
    /// The behaviour of its containers.
    pub behaviour: Behaviour,
    /// `amd64`.
    pub architecture: String,
    /// Its size, in bytes.
    pub size: u64,
    /// The time that a pull of it takes.
    pub pull_time: Duration,
}

/// The images of the host, and of the one registry to which all references lead.
#[derive(Debug, Default)]
pub(super) struct Images {
    local: BTreeMap<String, Image>,
    tags: BTreeMap<String, String>,
    digests: BTreeMap<String, BTreeSet<String>>,
    registry: BTreeMap<String, Image>,
    broken: BTreeMap<String, String>,
}

impl Images {
    /// Puts an image on the host; a tag of another image moves.
    pub(super) fn add(&mut self, reference: &str, image: Image) {
        self.tags.insert(normal(reference), image.id.clone());
        self.local.insert(image.id.clone(), image);
    }

    /// Publishes an image in the registry; a tag that another image has moves to this one.
    pub(super) fn publish(&mut self, reference: &str, image: Image) {
        self.registry.insert(normal(reference), image);
    }

    /// Changes how containers created from an image from now on behave: their surroundings have changed, not the image.
    pub(super) fn set_behaviour(&mut self, reference: &str, behaviour: &Behaviour) {
        if let Some(image) = self.registry.get_mut(&normal(reference)) {
            image.behaviour = behaviour.clone();
        }
        let id = self.tags.get(&normal(reference));
        if let Some(image) = id.and_then(|id| self.local.get_mut(id)) {
            image.behaviour = behaviour.clone();
        }
    }

    /// Makes pulls of a reference fail with this message, or succeed again.
    pub(super) fn break_pull(&mut self, reference: &str, message: Option<&str>) {
        match message {
            Some(message) => self.broken.insert(normal(reference), message.to_owned()),
            None => self.broken.remove(&normal(reference)),
        };
    }

    /// The registry's image for a reference, or the reason why it has none.
    pub(super) fn offered(&self, reference: &str) -> Result<&Image, EngineError> {
        let reference = normal(reference);
        if let Some(message) = self.broken.get(&reference) {
            return Err(EngineError::Refused {
                status: 200,
                message: message.clone(),
            });
        }
        self.registry.get(&reference).ok_or_else(|| {
            EngineError::NotFound(format!("manifest for {reference} not found: manifest unknown"))
        })
    }

    /// Copies an image from the registry to the host.
    pub(super) fn pull(&mut self, reference: &str) -> Result<(), EngineError> {
        let image = self.offered(reference)?.clone();
        let repository = repository(&normal(reference)).to_owned();
        self.digests
            .entry(image.id.clone())
            .or_default()
            .insert(format!("{repository}@{}", digest(&image)));
        self.add(reference, image);
        Ok(())
    }

    /// The image on the host, by reference, id or short id.
    pub(super) fn find(&self, reference_or_id: &str) -> Option<&Image> {
        if let Some(id) = self.tags.get(&normal(reference_or_id)) {
            return self.local.get(id);
        }
        let hex = reference_or_id.strip_prefix("sha256:").unwrap_or(reference_or_id);
        let by_id = (hex.len() >= 12 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| {
                self.local
                    .values()
                    .find(|image| image.id["sha256:".len()..].starts_with(hex))
            })
            .flatten();
        by_id.or_else(|| {
            let owner = self
                .digests
                .iter()
                .find(|(_, digests)| digests.contains(reference_or_id))?;
            self.local.get(owner.0)
        })
    }

    /// The tags of an image.
    pub(super) fn tags_of(&self, id: &str) -> Vec<&str> {
        self.tags
            .iter()
            .filter(|(_, tagged)| *tagged == id)
            .map(|(tag, _)| tag.as_str())
            .collect()
    }

    /// Removes a tag from its image; `None` if there is no such tag.
    pub(super) fn untag(&mut self, reference: &str) -> Option<()> {
        self.tags.remove(&normal(reference)).map(|_| ())
    }

    /// Removes an image and its tags from the host.
    pub(super) fn remove(&mut self, id: &str) {
        self.local.remove(id);
        self.digests.remove(id);
        self.tags.retain(|_, tagged| tagged != id);
    }

    /// The ids of all images on the host.
    pub(super) fn ids(&self) -> Vec<String> {
        self.local.keys().cloned().collect()
    }

    /// The image's document.
    pub(super) fn document(&self, image: &Image) -> Value {
        let digests: Vec<&String> = self.digests.get(&image.id).into_iter().flatten().collect();
        json!({
            "Id": image.id,
            "RepoTags": self.tags_of(&image.id),
            "RepoDigests": digests,
            "Created": "2026-01-01T00:00:00Z",
            "Architecture": image.architecture,
            "Os": "linux",
            "Size": image.size,
            "Config": image.config,
        })
    }
}

/// The digest of an image's manifest: not its id, as with real registries.
pub(super) fn digest(image: &Image) -> String {
    let hex: String = image.id["sha256:".len()..].chars().rev().collect();
    format!("sha256:{hex}")
}

/// A reference with its tag, and without the default registry.
fn normal(reference: &str) -> String {
    let short = reference
        .strip_prefix("docker.io/library/")
        .or_else(|| reference.strip_prefix("docker.io/"))
        .unwrap_or(reference);
    let last = short.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) {
        short.to_owned()
    } else {
        format!("{short}:latest")
    }
}

fn repository(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}
