//! Everything that a seed determines: a host, its delegates, the published images and their times, and the faults.

use std::time::Duration;

use delegate_upgrader::config::UpdateOrder;
use serde_json::{Value, json};

use super::hardships::{self, Hardship};
use super::people::{Density, People, move_in};
use super::random::Random;
pub use crate::settings::GROUP;
use kit::twin::{Behaviour, Exit, OnStop, Wellness, delegate_body};

/// A tag that moves to another image at each publication.
pub const MOVING: &str = "harness/delegate:latest";
pub const HOUR: Duration = Duration::from_secs(3600);

/// Everything that a seed decides before the story begins.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub healthy_time: Duration,
    pub healthy_deadline: Duration,
    pub stop_timeout: Duration,
    pub update_order: UpdateOrder,
    /// Whether `HEALTH_ACTION` is `restart`.
    pub restarts_unhealthy: bool,
    pub delegates: Vec<Delegate>,
    /// The first image runs on the delegates at the beginning; the others are published, some of them in vain.
    pub images: Vec<Made>,
    /// The times at which images are published, by index.
    pub publications: Vec<(Duration, usize)>,
    pub upgraders: Vec<Upgrader>,
    pub faults: Faults,
    /// How the host lets the upgrader down.
    pub hardships: Vec<Hardship>,
    /// The people who work on the host.
    pub people: Option<People>,
    /// Whether some outages of the Manager last hours.
    pub long_outages: bool,
    /// The time when faults end.
    pub calm_at: Duration,
    pub random: Random,
}

/// A delegate as its owner runs it.
#[derive(Clone, Debug)]
pub struct Delegate {
    pub name: String,
    pub auto_remove: bool,
    pub way: Way,
    pub body: Value,
    /// Its settings keep it from ever being healthy.
    pub is_broken: bool,
}

/// Whether two of its containers may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    StartFirst,
    StopFirst,
    /// Its owner wants it left alone.
    LeftAlone,
}

/// An image and the behaviour of its containers.
#[derive(Clone, Debug)]
pub struct Made {
    pub reference: String,
    pub kind: Kind,
    pub behaviour: Behaviour,
    pub pull_time: Duration,
}

/// How good an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Good,
    Slow,
    CrashesAtOnce,
    CrashesSoon,
    /// It crashes only after it has proved itself.
    CrashesLate,
    TurnsIll,
    NeverHealthy,
    TooSlow,
    Flaps,
    DoesNotStart,
    WrongPlatform,
    CannotBePulled,
}

impl Kind {
    /// Whether its containers keep working once they are ready.
    pub fn serves(self) -> bool {
        matches!(self, Self::Good | Self::Slow)
    }

    /// Whether none of its containers can ever prove itself. A slow one can, if a process observes it late.
    pub fn never_serves(self) -> bool {
        matches!(
            self,
            Self::CrashesAtOnce
                | Self::CrashesSoon
                | Self::NeverHealthy
                | Self::DoesNotStart
                | Self::WrongPlatform
                | Self::CannotBePulled
        )
    }
}

/// The settings of one upgrader.
#[derive(Clone, Debug)]
pub struct Upgrader {
    /// The minute within the hour at which its scheduled runs start.
    pub minute: Duration,
    /// Whether each run is a new process.
    pub once: bool,
    /// Whether it also upgrades at its start.
    pub run_on_start: bool,
}

/// The rate of each fault: once in this many calls, or never if 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub error_before: u64,
    pub error_after: u64,
    pub lost_request: u64,
    pub lost_answer: u64,
    pub twice: u64,
    pub slow: u64,
    pub kill: u64,
    pub engine: u64,
    pub power: u64,
    pub person: u64,
    pub manager: u64,
    pub clock: u64,
    pub crash: u64,
    /// See [`Hardship`].
    pub hardship: u64,
}

impl Scenario {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let healthy_time = random.pick(&[10, 10, 10, 30, 60].map(Duration::from_secs));
        let healthy_deadline = healthy_time * u32::try_from(random.below(5..12)).unwrap();
        let stop_timeout = random.pick(&[30, 600, 3600, 3600].map(Duration::from_secs));
        let [auto, stop_first] = [UpdateOrder::Auto, UpdateOrder::StopFirst];
        let update_order = random.pick(&[auto, auto, auto, stop_first]);
        let timing = Timing {
            healthy_time,
            healthy_deadline,
        };
        let images = images(&mut random, &timing);
        let calm_at = HOUR * u32::try_from(random.below(2..6)).unwrap();
        let mut publications = vec![(Duration::ZERO, 1)];
        for image in 2..images.len() {
            publications.push((random.seconds(60..calm_at.as_secs()), image));
        }
        publications.sort();
        let delegates = delegates(&mut random, update_order, &images[0]);
        Self {
            seed,
            healthy_time,
            healthy_deadline,
            stop_timeout,
            update_order,
            // Drawn apart, so that the rest of each story is as it would be without.
            restarts_unhealthy: Random::new(seed ^ 0x0072_6573_7461_7274).one_in(4),
            delegates,
            images,
            publications,
            upgraders: upgraders(&mut random),
            faults: faults(&mut random),
            hardships: Vec::new(),
            people: None,
            long_outages: false,
            calm_at,
            random,
        }
    }

    /// The same on a host that lets the upgrader down.
    pub fn with_hardships(seed: u64) -> Self {
        let mut scenario = Self::new(seed);
        hardships::move_in(&mut scenario);
        scenario
    }

    /// The same with people who work on the host.
    pub fn with_people(seed: u64, density: Density) -> Self {
        let mut scenario = Self::new(seed);
        move_in(&mut scenario, density);
        scenario
    }
}

impl Delegate {
    /// Applies `UPDATE_ORDER=stop-first`.
    pub fn become_stop_first(&mut self) {
        if self.way == Way::StartFirst {
            self.way = Way::StopFirst;
        }
    }
}

struct Timing {
    healthy_time: Duration,
    healthy_deadline: Duration,
}

fn images(random: &mut Random, timing: &Timing) -> Vec<Made> {
    let count = random.pick(&[2, 3, 3, 4, 4, 5]);
    let moving = random.one_in(10);
    let bad = [Kind::Flaps, Kind::CrashesSoon, Kind::NeverHealthy];
    let first = [&[Kind::Good; 7][..], &bad].concat();
    (0..count)
        .map(|index| {
            let kind = match index {
                0 => random.pick(&first),
                _ => kind(random),
            };
            // Someone pushed another image under the same tag, although the tag should not move.
            let tag = if index > 1 && random.one_in(6) {
                index - 1
            } else {
                index
            };
            Made {
                reference: if moving {
                    MOVING.to_owned()
                } else {
                    format!("harness/delegate:26.0{}.1", tag + 1)
                },
                kind,
                behaviour: behaviour(kind, random, timing),
                pull_time: random.pick(&[1, 1, 2, 2, 20].map(Duration::from_secs)),
            }
        })
        .collect()
}

fn kind(random: &mut Random) -> Kind {
    if random.one_in(2) {
        return random.pick(&[Kind::Good, Kind::Good, Kind::Slow]);
    }
    random.pick(&[
        Kind::CrashesAtOnce,
        Kind::CrashesSoon,
        Kind::CrashesLate,
        Kind::CrashesLate,
        Kind::TurnsIll,
        Kind::NeverHealthy,
        Kind::TooSlow,
        Kind::Flaps,
        Kind::DoesNotStart,
        Kind::WrongPlatform,
        Kind::CannotBePulled,
    ])
}

fn behaviour(kind: Kind, random: &mut Random, timing: &Timing) -> Behaviour {
    let time = timing.healthy_time;
    let mut behaviour = Behaviour {
        ready_after: random.seconds(0..6),
        on_stop: match random.below(0..10) {
            0 => OnStop::Ignore,
            1..4 => OnStop::Drain(random.seconds(0..2)),
            4..7 => OnStop::Drain(random.seconds(5..60)),
            7..9 => OnStop::Drain(random.seconds(60..1500)),
            _ => OnStop::Drain(random.seconds(1500..4000)),
        },
        ..Behaviour::default()
    };
    let mut exits = |after: Duration| {
        behaviour.exits = Some(Exit {
            after,
            code: i64::try_from(random.below(0..3)).unwrap(),
        });
    };
    match kind {
        Kind::Good | Kind::WrongPlatform | Kind::CannotBePulled => {}
        Kind::Slow => behaviour.ready_after = timing.healthy_deadline - time * 2 - time / 2,
        Kind::CrashesAtOnce => exits(Duration::from_millis(50)),
        Kind::CrashesSoon => exits(time / 2),
        Kind::CrashesLate => {
            let late = random.pick(&[1, 20, 100, 1000, 4000]);
            behaviour.exits = Some(Exit {
                after: behaviour.ready_after + time + Duration::from_secs(late),
                code: 1,
            });
        }
        Kind::TurnsIll => {
            let late = random.pick(&[1, 20, 100, 1000, 4000]);
            behaviour.health = Wellness::For(time + Duration::from_secs(late));
        }
        Kind::NeverHealthy => behaviour.health = Wellness::Never,
        Kind::TooSlow => behaviour.ready_after = timing.healthy_deadline + time,
        Kind::Flaps => {
            behaviour.health = Wellness::Flaps {
                up: time * random.pick(&[1, 2, 4]) / 2,
                down: time / 2,
            }
        }
        Kind::DoesNotStart => behaviour.start_error = Some("no such program".to_owned()),
    }
    behaviour
}

fn delegates(random: &mut Random, update_order: UpdateOrder, old: &Made) -> Vec<Delegate> {
    let count = random.pick(&[1, 1, 1, 2, 3]);
    let host_network = count == 1 && random.one_in(5);
    let names = ["aa", "bb", "cc"];
    (0..count)
        .map(|index| {
            let mut way = match update_order {
                UpdateOrder::StopFirst => Way::StopFirst,
                _ => Way::StartFirst,
            };
            let mut body = delegate_body(GROUP, &old.reference);
            let auto_remove = random.one_in(5) && old.kind != Kind::CrashesSoon;
            let mut policy = random.pick(&["always", "unless-stopped", "unless-stopped", "on-failure", "no"]);
            if auto_remove {
                policy = "no";
            } else if old.kind != Kind::Good {
                // A delegate that ended by itself is its owner's business.
                policy = random.pick(&["always", "unless-stopped"]);
            }
            body["HostConfig"]["AutoRemove"] = auto_remove.into();
            body["HostConfig"]["RestartPolicy"] = json!({ "Name": policy, "MaximumRetryCount": 0 });
            if host_network {
                body["HostConfig"]["NetworkMode"] = "host".into();
                way = Way::StopFirst;
            } else if random.one_in(8) {
                let port = (3460 + index).to_string();
                body["HostConfig"]["PortBindings"] =
                    json!({ "3460/tcp": [{ "HostIp": "", "HostPort": port }] });
                way = Way::StopFirst;
            } else if random.one_in(6) {
                body["HostConfig"]["NetworkMode"] = "backend".into();
                body["NetworkingConfig"] =
                    json!({ "EndpointsConfig": { "backend": { "Aliases": ["worker"] } } });
            }
            if random.one_in(10) {
                body["Labels"]["io.delegate-upgrader.update-order"] = "stop-first".into();
                way = Way::StopFirst;
            }
            if random.one_in(6) {
                body["Healthcheck"] =
                    json!({ "Test": ["CMD", "/probe"], "Interval": 5_000_000_000_u64, "Retries": 2 });
            }
            if random.one_in(25) {
                body["Labels"]["io.delegate-upgrader.enable"] = "false".into();
                way = Way::LeftAlone;
            }
            Delegate {
                name: names[index].to_owned(),
                auto_remove,
                way,
                body,
                is_broken: false,
            }
        })
        .collect()
}

fn upgraders(random: &mut Random) -> Vec<Upgrader> {
    let count = if random.one_in(4) { 2 } else { 1 };
    let minute = random.seconds(10..600);
    (0..count)
        .map(|_| Upgrader {
            minute: minute + random.millis(0..20) * u32::try_from(random.pick(&[0, 1, 1000])).unwrap(),
            once: random.one_in(4),
            run_on_start: random.one_in(2),
        })
        .collect()
}

/// A few kinds of fault, each at its own rate: with all of them at once, no upgrade would get far.
fn faults(random: &mut Random) -> Faults {
    let mut faults = Faults::default();
    for _ in 0..random.pick(&[0, 1, 2, 2, 3, 4, 6]) {
        // One in this many calls that change something; reads are about twenty times as many.
        let often = random.pick(&[3, 6, 12, 25, 50]);
        match random.below(0..15) {
            0 => faults.error_before = often,
            1 => faults.error_after = often,
            2 => faults.lost_request = often,
            3 => faults.lost_answer = often,
            4 => faults.twice = often,
            5 => faults.slow = often,
            6 | 7 => faults.kill = often,
            8 => faults.engine = often * 2,
            9 => faults.power = often * 3,
            10 | 11 => faults.person = often,
            12 => faults.manager = often * 2,
            13 => faults.clock = often * 2,
            _ => faults.crash = often * 2,
        }
    }
    faults
}
