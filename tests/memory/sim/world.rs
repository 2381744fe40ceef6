//! The world of a scenario: a host on the twin, its images and delegates, and the book of what happens there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::reconcile::Settings;
use delegate_upgrader::rollout::Policy;
use serde_json::json;
use tokio::sync::Notify;

use super::book::{Book, Given};
use super::scenario::{Kind, MOVING, Scenario};
use kit::twin::{Behaviour, Image, Twin};

/// The name of a container that the upgrader must not touch.
pub const STRANGER: &str = "web";

pub struct World {
    pub twin: Twin,
    pub scenario: Scenario,
    /// The scenario's images, by index.
    pub images: Vec<Image>,
    pub stranger: ContainerId,
    pub(super) book: Mutex<Book>,
    pub(super) kills: Vec<Notify>,
    pub endless: Notify,
    pub(super) manager_down: Mutex<bool>,
    pub aloud: bool,
}

impl World {
    pub fn new(scenario: Scenario, aloud: bool) -> Self {
        let twin = Twin::default();
        twin.add_network("backend");
        twin.add_network("extra");
        let images: Vec<Image> = scenario
            .images
            .iter()
            .map(|made| {
                let mut image = twin.image(made.behaviour.clone());
                image.pull_time = made.pull_time;
                image.config["Env"] = json!(["PATH=/bin", format!("IMAGE={}", image.id)]);
                if made.kind == Kind::WrongPlatform {
                    "arm64".clone_into(&mut image.architecture);
                }
                image
            })
            .collect();
        twin.add_image(&scenario.images[0].reference, images[0].clone());
        twin.publish(&scenario.images[0].reference, images[0].clone());
        let mut originals = BTreeMap::new();
        for delegate in &scenario.delegates {
            let id = twin.run(&delegate.name, &delegate.body);
            originals.insert(delegate.name.clone(), twin.document(id.as_str()).unwrap());
        }
        twin.add_image("web:1", twin.image(Behaviour::default()));
        let stranger = twin.run(
            STRANGER,
            &json!({
                "Image": "web:1",
                "Labels": {},
                "Env": [],
                "HostConfig": { "RestartPolicy": { "Name": "always", "MaximumRetryCount": 0 } },
            }),
        );
        let upgraders = scenario.upgraders.len();
        let names = scenario.delegates.iter().map(|delegate| delegate.name.clone());
        let settings = scenario.delegates.iter().map(|delegate| Given {
            document: originals[&delegate.name].clone(),
            until: None,
        });
        Self {
            twin,
            images,
            stranger,
            book: Mutex::new(Book {
                runs: vec![0; upgraders],
                last: vec![None; upgraders],
                names: names.zip(0..).collect(),
                settings: settings.map(|given| vec![given]).collect(),
                ..Book::default()
            }),
            kills: (0..upgraders).map(|_| Notify::new()).collect(),
            endless: Notify::new(),
            manager_down: Mutex::new(false),
            scenario,
            aloud,
        }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub fn tell(&self, what: impl Into<String>) {
        if self.aloud {
            let at = self.twin.elapsed();
            self.book().lines.push((at, what.into()));
        }
    }

    /// Notes that an upgrader starts or stops looking after the host.
    pub(super) fn note_watch(&self, slot: usize, begins: bool) {
        let at = self.twin.elapsed();
        self.book().watches.push((at, slot, begins));
    }

    pub(super) fn count(&self, what: &str) {
        *self.book().counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Whether two images are the same for an upgrader: unless its tag moves, a reference identifies one image.
    pub fn same(&self, one: usize, other: usize) -> bool {
        let reference = |index: usize| self.scenario.images[index].reference.as_str();
        one == other || (reference(one) == reference(other) && reference(one) != MOVING)
    }

    /// An image by its id.
    pub fn image_of(&self, id: &str) -> Option<usize> {
        self.images.iter().position(|image| image.id == id)
    }

    pub fn publish(&self, index: usize) {
        let made = &self.scenario.images[index];
        self.twin.publish(&made.reference, self.images[index].clone());
        let broken = (made.kind == Kind::CannotBePulled).then_some("manifest unknown");
        self.twin.break_pull(&made.reference, broken);
        self.book().published = index;
        self.tell(format!("published: {} ({:?})", made.reference, made.kind));
    }

    pub(super) fn settings(&self) -> Settings {
        let scenario = &self.scenario;
        let mut settings = crate::settings::settings();
        settings.scope.stop_timeout = scenario.stop_timeout;
        settings.policy = Policy {
            update_order: scenario.update_order,
            healthy_time: scenario.healthy_time,
            healthy_deadline: scenario.healthy_deadline,
            restarts_unhealthy: scenario.restarts_unhealthy,
            health_only: self.book().health_only,
            ..settings.policy
        };
        settings
    }
}
