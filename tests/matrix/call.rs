//! The names of calls to the engine's API: by effect and target, so that a call has the same name in every run.

use std::collections::HashMap;

/// A call with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Whether it asks for a change.
    pub(crate) write: bool,
    /// The part of the container in the call, as the request writes it.
    pub(crate) container: Option<String>,
}

/// The names of the containers and images in one delegate's rollout.
pub(crate) struct Cast {
    /// The delegate's name.
    pub(crate) name: String,
    /// The tag and the id of its first image.
    pub(crate) old_image: (String, String),
    /// The parts of this rollout's containers, by id.
    pub(crate) parts: HashMap<String, String>,
}

/// The part of a container that belongs to no rollout.
pub(crate) const STRANGER: &str = "stranger";

impl Cast {
    /// Notes a container by the name with which it is created.
    pub(crate) fn note(&mut self, name: &str, id: &str) {
        let part = self.part_of_name(name);
        self.parts.insert(id.to_owned(), part);
    }

    /// `NAME.draining-17` → `draining`.
    fn part_of_name(&self, name: &str) -> String {
        match name.strip_prefix(&self.name) {
            Some("") => "service".to_owned(),
            Some(rest) if rest.starts_with('.') => rest
                .trim_start_matches('.')
                .split('-')
                .next()
                .unwrap_or_default()
                .to_owned(),
            _ => STRANGER.to_owned(),
        }
    }

    fn part(&self, id_or_name: &str) -> String {
        match self.parts.get(id_or_name) {
            Some(part) => part.clone(),
            None => self.part_of_name(id_or_name),
        }
    }

    fn image(&self, text: &str) -> &'static str {
        let (tag, id) = &self.old_image;
        if text.contains(tag) || text.contains(id.trim_start_matches("sha256:")) {
            "old"
        } else {
            "new"
        }
    }

    /// Names a request.
    pub(crate) fn call(&self, method: &str, target: &str) -> Call {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let versioned = segments.first().is_some_and(|first| {
            first
                .strip_prefix('v')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        if versioned {
            segments.remove(0);
        }
        let new_name = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("name="))
            .unwrap_or_default();
        let about = |verb: &str, id: &str| (format!("{verb}-{}", self.part(id)), Some(id.to_owned()));
        let (name, container) = match (method, segments.as_slice()) {
            ("GET", ["containers", "json"]) => ("list".to_owned(), None),
            ("GET", ["containers", id, "json"]) => about("inspect", id),
            ("POST", ["containers", "create"]) => (format!("create-{}", self.part_of_name(new_name)), None),
            ("POST", ["containers", id, "rename"]) => {
                let (name, container) = about("rename", id);
                (format!("{name}-to-{}", self.part_of_name(new_name)), container)
            }
            (_, ["containers", id, verb]) => about(verb, id),
            ("DELETE", ["containers", id]) => about("remove", id),
            ("POST", ["images", "create"]) => ("pull".to_owned(), None),
            ("GET", ["images", .., "json"]) => (format!("image-{}", self.image(path)), None),
            ("DELETE", ["images", ..]) => (format!("remove-image-{}", self.image(path)), None),
            ("GET", ["distribution", .., "json"]) => ("digest".to_owned(), None),
            ("POST", ["networks", _, verb]) => (format!("network-{verb}"), None),
            _ => (
                format!("{}-{}", method.to_ascii_lowercase(), segments.join("-")),
                None,
            ),
        };
        Call {
            name,
            write: !matches!(method, "GET" | "HEAD"),
            container,
        }
    }
}
