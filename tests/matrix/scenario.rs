//! The delegate and the image of an upgrade.

use std::fmt;

use serde_json::{Value, json};

use kit::lab::{CRASHES, LABEL, NEVER_HEALTHY, V1, V2, image};

/// The way in which a delegate must be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// It vanishes when it stops.
    pub(crate) rm: bool,
    /// A published port, so two cannot live at once.
    pub(crate) stop_first: bool,
}

/// The fate of the new image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Successor {
    Good,
    NeverHealthy,
    Crashes,
}

/// One row of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scenario {
    pub(crate) shape: Shape,
    pub(crate) successor: Successor,
}

/// The time until a delegate is healthy.
pub(crate) const START_SECONDS: u64 = 1;

impl Shape {
    const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(false, true),
        Self::new(true, false),
        Self::new(true, true),
    ];

    const fn new(rm: bool, stop_first: bool) -> Self {
        Self { rm, stop_first }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rm = if self.rm { "rm-" } else { "" };
        let first = if self.stop_first { "stop" } else { "start" };
        write!(f, "{rm}{first}-first")
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let successor = match self.successor {
            Successor::Good => "",
            Successor::NeverHealthy => "-never-healthy",
            Successor::Crashes => "-crashes",
        };
        f.pad(&format!("{}{successor}", self.shape))
    }
}

impl Scenario {
    /// All rows, with the good images first.
    pub(crate) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for successor in [Successor::Good, Successor::NeverHealthy, Successor::Crashes] {
            rows.extend(Shape::ALL.map(|shape| Self { shape, successor }));
        }
        rows
    }

    pub(crate) fn is_good(self) -> bool {
        self.successor == Successor::Good
    }

    /// The published image.
    pub(crate) fn published(self) -> String {
        let version = match self.successor {
            Successor::Good => V2,
            Successor::NeverHealthy => NEVER_HEALTHY,
            Successor::Crashes => CRASHES,
        };
        image(version.split(' ').next().unwrap_or_default())
    }

    /// The delegate's create body. `number` is the point's, for unique values. With `--rm` there is no restart policy.
    pub(crate) fn body(self, name: &str, number: usize, drain: u64, policy: &str) -> Value {
        let policy = if self.shape.rm { "no" } else { policy };
        let mut body = json!({
            "Image": image(V1),
            "Env": [
                format!("DELEGATE_NAME={name}"),
                format!("START_SECONDS={START_SECONDS}"),
                format!("DRAIN_SECONDS={drain}"),
                "ACCOUNT_ID=an-account",
                "JAVA_OPTS=-Xms64M -Dx=\"a b\"",
            ],
            "Labels": { LABEL: name, "owner": "a-team" },
            "HostConfig": {
                "AutoRemove": self.shape.rm,
                "RestartPolicy": { "Name": policy },
                "Memory": 64 << 20,
                "ExtraHosts": ["manager.example:127.0.0.1"],
            },
        });
        if self.shape.stop_first {
            let port = 10_000 + number % 50_000;
            body["ExposedPorts"] = json!({ "3460/tcp": {} });
            body["HostConfig"]["PortBindings"] =
                json!({ "3460/tcp": [{ "HostIp": "127.0.0.1", "HostPort": port.to_string() }] });
        }
        body
    }

    /// Whether the delegate is also on a second network.
    pub(crate) fn has_two_networks(self) -> bool {
        self.shape.rm && self.shape.stop_first
    }
}
