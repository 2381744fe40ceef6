//! Rollouts built by hand, so that a test reads like a sentence.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::{Timing, UpdateOrder};
use delegate_upgrader::container::{ContainerId, ImageId, OWN_WORKLOAD, Role, RunState};
use delegate_upgrader::document::SingleInstance;
use delegate_upgrader::health::{Health, HealthStatus, Probe, Work};
use delegate_upgrader::host::hold::Holds;
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{
    Blocker, Decided, Decision, Desired, Facts, History, Intent, Life, Member, OwnerSettings, Policy, Reach,
    RememberedImage, Rollout, Step, StopTimeoutSource, next,
};
use delegate_upgrader::schedule::wave::Place;
use delegate_upgrader::text::duration;

pub const V1: &str = "harness/delegate:26.01.1";
pub const V2: &str = "harness/delegate:26.02.1";
pub const V3: &str = "harness/delegate:26.03.1";

/// Seconds.
pub const HEALTHY_TIME: i64 = 60;
pub const DEADLINE: i64 = 600;
pub const STOP_TIMEOUT: i64 = 3600;

/// The moment of every test.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// So many seconds before `now`.
pub fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

pub fn image_id(reference: &str) -> ImageId {
    ImageId::new(format!("sha256:{reference}"))
}

pub fn remembered(reference: &str) -> RememberedImage {
    RememberedImage {
        reference: reference.into(),
        id: image_id(reference),
    }
}

pub fn verdict(status: HealthStatus) -> Health {
    Health {
        status,
        probe: Probe::Http,
        detail: format!("/api/health says {}", status.as_str()),
        failed_checks: 0,
    }
}

/// A delegate that has run for a day, as its owner created it: image V1, healthy, `--restart unless-stopped`.
pub fn old() -> Member {
    Member {
        id: ContainerId::new("old"),
        name: String::new(),
        role: Role::Serving,
        state: RunState::Running,
        health: verdict(HealthStatus::Healthy),
        work: None,
        image_id: image_id(V1),
        image: V1.into(),
        replaces: None,
        is_copy: false,
        release: 0,
        previous_release: 0,
        previous: None,
        restart_policy: "unless-stopped".to_owned(),
        vanishes: false,
        emulates_auto_remove: false,
        settings: "as made".to_owned(),
        fingerprint: None,
        rolled_back_from: None,
        reconfigured: None,
        request: None,
        memory_limit: None,
        created_at: ago(86_400),
        life: Life {
            started_at: Some(ago(86_400)),
            finished_at: None,
            restart_count: 0,
            ending: "exited with code 3".to_owned(),
            was_stopped: false,
        },
        stop_timeout: Duration::from_secs(3600),
        stop_timeout_source: StopTimeoutSource::Setting,
        former_images: Vec::new(),
        outdated_images: Vec::new(),
        history: Box::default(),
    }
    .seen_healthy_for(86_400)
}

/// Its successor with V2, prepared and never started.
pub fn new() -> Member {
    old().id("new").image(V2).replaces("old").created().change(|m| {
        m.release = 1;
        m.previous = Some(remembered(V1));
        m.fingerprint = Some("as made".to_owned());
        m.created_at = ago(1000);
        m.history.comparison = Some(Ok(()));
        m.history.trial = Some(Ok(()));
    })
}

/// A copy of the old delegate, never started.
pub fn copy() -> Member {
    old().id("copy").replaces("old").created().change(|m| {
        m.is_copy = true;
        m.created_at = ago(5);
    })
}

/// An upgrader of the new image that makes the exchange, never started.
pub fn helper() -> Member {
    new().id("helper").change(|m| m.created_at = ago(999))
}

/// Changes to a member.
pub trait Change: Sized {
    fn change(self, change: impl FnOnce(&mut Member)) -> Self;

    fn id(self, id: &str) -> Self {
        self.change(|m| m.id = ContainerId::new(id))
    }

    fn image(self, reference: &str) -> Self {
        self.change(|m| {
            m.image = reference.into();
            m.image_id = image_id(reference);
        })
    }

    fn replaces(self, id: &str) -> Self {
        self.change(|m| m.replaces = Some(ContainerId::new(id)))
    }

    /// It reports that it executes this many tasks.
    fn tasks(self, tasks: u64) -> Self {
        let is_connected = None;
        self.change(|m| m.work = Some(Work { tasks, is_connected }))
    }

    /// Never started.
    fn created(self) -> Self {
        self.change(|m| {
            m.life.started_at = None;
            m.health = verdict(HealthStatus::Unhealthy);
            *m.history = History::default();
            m.state = RunState::Created;
        })
    }

    /// It has been running for this many seconds, observed from the start, and healthy for this many.
    fn running(self, since: i64, healthy: i64) -> Self {
        self.change(|m| {
            m.state = RunState::Running;
            m.life.started_at = Some(ago(since));
            m.history.seen_since = Some(ago(since));
        })
        .seen_healthy_for(healthy)
    }

    /// It has been running for this many seconds, and unhealthy for this many.
    fn unhealthy(self, since: i64, unhealthy: i64) -> Self {
        self.running(since, 0).change(|m| {
            m.health = verdict(HealthStatus::Unhealthy);
            m.history.healthy_since = None;
            m.history.unhealthy_since = Some(ago(unhealthy));
        })
    }

    fn seen_healthy_for(self, seconds: i64) -> Self {
        self.change(|m| {
            m.health = verdict(HealthStatus::Healthy);
            m.history.healthy_since = Some(ago(seconds));
            m.history.unhealthy_since = None;
        })
    }

    fn state(self, state: RunState) -> Self {
        self.change(|m| {
            if state != RunState::Running {
                m.health = verdict(HealthStatus::Unhealthy);
                m.history.healthy_since = None;
            }
            m.state = state;
        })
    }

    /// It ended this many seconds ago.
    fn exited(self, seconds: i64) -> Self {
        let started = |m: &Member| m.life.started_at.unwrap_or(ago(seconds + 60));
        self.state(RunState::Exited).change(|m| {
            m.life.started_at = Some(started(m));
            m.life.finished_at = Some(ago(seconds));
        })
    }

    /// Someone stopped it this many seconds ago.
    fn stopped(self, seconds: i64) -> Self {
        self.exited(seconds).change(|m| m.life.was_stopped = true)
    }

    fn restarts(self, count: u64) -> Self {
        self.change(|m| m.life.restart_count = count)
    }

    fn policy(self, policy: &str) -> Self {
        self.change(|m| policy.clone_into(&mut m.restart_policy))
    }

    /// Docker has refused this many times to start it, but may start it the next time.
    fn refused(self, count: u32) -> Self {
        self.change(|m| m.history.starts.count = count)
    }

    /// Docker will never start it.
    fn refused_for_good(self) -> Self {
        self.change(|m| m.history.starts.for_good = Some("no such file".to_owned()))
    }

    /// This process asked it to stop this many seconds ago.
    fn asked_to_stop(self, seconds: i64) -> Self {
        self.change(|m| {
            (m.history.stop_requested_at, m.history.was_asked_to_stop) = (Some(ago(seconds)), true);
        })
    }

    fn vanishing(self) -> Self {
        self.policy("no").change(|m| m.vanishes = true)
    }

    fn emulating(self) -> Self {
        self.policy("no").change(|m| m.emulates_auto_remove = true)
    }
}

impl Change for Member {
    fn change(mut self, change: impl FnOnce(&mut Member)) -> Self {
        change(&mut self);
        self
    }
}

/// A rollout, the desired image, and the permissions.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub rollout: Rollout,
    pub desired: Desired,
    pub policy: Policy,
    pub facts: Facts,
    pub now: DateTime<Utc>,
}

/// Nothing is paused, and the image was first seen an hour ago.
pub fn holds() -> Holds {
    Holds {
        pause: None,
        image: V2.to_owned(),
        first_seen: Some(ago(3600)),
        place: Place::of("host", "image"),
        rejected: Vec::new(),
    }
}

impl Scene {
    /// A scene without containers or a new desired image. All facts are known, and none stands in the way.
    pub fn new() -> Self {
        Self {
            rollout: Rollout {
                name: "d".to_owned(),
                workload: "docker-delegate".to_owned(),
                owner: OwnerSettings::default(),
                ..Rollout::default()
            },
            desired: Desired::Keep(Reason::AwaitingSchedule { published: None }),
            policy: Policy {
                health_only: false,
                update_order: UpdateOrder::Auto,
                healthy_time: Duration::from_secs(60),
                healthy_deadline: Duration::from_secs(600),
                idle_wait: Duration::from_secs(3600),
                restarts_unhealthy: false,
                timing: Timing::default(),
            },
            facts: Facts {
                free_memory: Some(Ok(())),
                hidden_obstacle: Some(Ok(())),
                manager: Some(Reach::Reachable),
                holds: Some(Ok(holds())),
                ..Facts::default()
            },
            now: now(),
        }
    }

    pub fn serving(mut self, member: Member) -> Self {
        self.rollout.serving = Some(named(member, Role::Serving));
        self
    }

    pub fn candidate(mut self, member: Member) -> Self {
        self.rollout.candidate = Some(named(member, Role::Candidate));
        self
    }

    pub fn retired(mut self, member: Member) -> Self {
        self.rollout.old.push(named(member, Role::Retired));
        self
    }

    /// Renamed this many seconds ago.
    pub fn draining(mut self, seconds: i64, member: Member) -> Self {
        let since = ago(seconds).timestamp();
        let old = named(member, Role::Draining { since });
        self.rollout.old.insert(0, old);
        self
    }

    /// Withdrawn this many seconds ago.
    pub fn withdrawn(mut self, seconds: i64, member: Member) -> Self {
        let since = ago(seconds).timestamp();
        self.rollout
            .withdrawn
            .push(named(member, Role::Withdrawn { since }));
        self
    }

    /// A trial that was not removed when it was tried, this many seconds ago.
    pub fn trial(mut self, seconds: i64, member: Member) -> Self {
        let since = ago(seconds).timestamp();
        self.rollout.withdrawn.push(named(member, Role::Trial { since }));
        self
    }

    /// Rejected before the run began.
    pub fn failed(mut self, attempt: u32, member: Member) -> Self {
        self.facts.known_rejections.push(member.id.clone());
        self.rollout.failed.push(named(member, Role::Failed { attempt }));
        self
    }

    /// The settings before a change of these.
    pub fn former(mut self, member: Member) -> Self {
        self.rollout.former.push(named(member, Role::Former));
        self
    }

    pub fn helper(mut self, is_ready: bool, member: Member) -> Self {
        self.rollout.helper = Some(named(member, Role::Helper { is_ready }));
        self
    }

    /// Its owner renamed this container, which makes it a delegate of its own.
    pub fn renamed(mut self, mut member: Member) -> Self {
        "renamed".clone_into(&mut member.name);
        self.rollout.relatives.push(member);
        self
    }

    /// The rollout is the upgrader's own, seen by the container with this id.
    pub fn upgrader(self, own: &str) -> Self {
        self.with(|rollout| OWN_WORKLOAD.clone_into(&mut rollout.workload))
            .knowing(|facts| facts.own = Some(ContainerId::new(own)))
    }

    /// The published image, not pulled yet in this run.
    pub fn published(mut self, reference: &str) -> Self {
        self.desired = Desired::Image {
            reference: parsed(reference),
            id: None,
            intent: Intent::Upgrade,
        };
        self
    }

    /// The published image, pulled.
    pub fn pulled(mut self, reference: &str) -> Self {
        self.desired = Desired::Image {
            reference: parsed(reference),
            id: Some(image_id(reference)),
            intent: Intent::Upgrade,
        };
        self
    }

    /// Sets the intent behind the image.
    pub fn demanded(mut self, by: Intent) -> Self {
        if let Desired::Image { intent, .. } = &mut self.desired {
            *intent = by;
        }
        self
    }

    pub fn keep(mut self, reason: Reason) -> Self {
        self.desired = Desired::Keep(reason);
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Rollout)) -> Self {
        change(&mut self.rollout);
        self
    }

    pub fn knowing(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Two containers cannot run at the same time.
    pub fn host_network(self) -> Self {
        self.with(|rollout| rollout.single_instance = Some(SingleInstance::HostNetwork))
    }

    pub fn update_order(self, update_order: UpdateOrder) -> Self {
        self.policy(|policy| policy.update_order = update_order)
    }

    pub fn blockers(&self) -> Vec<Blocker> {
        next(&self.rollout, &self.desired, &self.policy, &self.facts, self.now).1
    }

    pub fn decided(&self) -> Decided {
        next(&self.rollout, &self.desired, &self.policy, &self.facts, self.now).0
    }

    /// The row that applies, and the decision in words: `name_retired: rename old to d.retired`.
    pub fn next(&self) -> String {
        let Decided { row, decision } = self.decided();
        format!("{row}: {}", self.words(decision))
    }

    fn words(&self, decision: Decision) -> String {
        let step = match decision {
            Decision::Rest(reason) => return format!("rest, {}", reason.kind()),
            Decision::Wait { reason, until } => {
                let milliseconds = (until - self.now).num_milliseconds();
                let pause = duration::text(Duration::from_millis(milliseconds.try_into().unwrap()));
                return format!("wait {pause}, {}", reason.kind());
            }
            Decision::Learn(fact) => return format!("find out {}", fact.kind()),
            Decision::Act(step) => step,
        };
        match step {
            Step::NoteFirstSeen { image } => format!("note that {image} is first seen"),
            Step::Reject {
                id, to, rejection, ..
            } => format!("reject {id} as {to}: {rejection}"),
            Step::Create {
                from,
                reference,
                release,
                ..
            } => format!("create release {release} from {from} with {reference}"),
            Step::Withdraw { id, to, because, .. } => {
                let because = because.map(|reason| format!(": {}", reason.kind()));
                format!(
                    "withdraw {id} as {}{}",
                    relative(&to),
                    because.unwrap_or_default()
                )
            }
            Step::Pull { reference } => format!("pull {reference}"),
            Step::Prepare { id, .. } => format!("prepare {id}"),
            Step::TryStart { id, trial, .. } => format!("try {id} as {}", relative(&trial)),
            Step::Keep { from, settings } => format!("keep {settings} of {from}"),
            Step::CreateHelper { from, image } => format!("create a helper from {from} with {image}"),
            Step::Recreate { from, image } => {
                let image = image.map(|image| format!(" with {}", image.reference));
                format!("recreate from {from}{}", image.unwrap_or_default())
            }
            Step::Start { id, .. } => format!("start {id}"),
            Step::Retire { id, to }
            | Step::Drain { id, to }
            | Step::Announce { id, to }
            | Step::Promote { id, to }
            | Step::Restore { id, to } => format!("rename {id} to {}", relative(&to)),
            Step::SetRestartPolicy { id, policy, .. } => format!("set the policy of {id} to {policy}"),
            Step::Stop { id, grace, .. } => format!("stop {id} within {}", duration::text(grace)),
            Step::Restart { id, grace, .. } => format!("restart {id} within {}", duration::text(grace)),
            Step::Remove { id, .. } => format!("remove {id}"),
            Step::RemoveImage { id } => format!("remove the image {}", id.as_str()),
        }
    }

    /// The reason for a rest or a wait.
    pub fn reason(&self) -> Reason {
        let decision = self.decided().decision;
        decision.reason().unwrap_or_else(|| panic!("{decision}")).clone()
    }
}

pub fn parsed(reference: &str) -> ImageReference {
    reference.parse().unwrap()
}

fn named(mut member: Member, role: Role) -> Member {
    member.name = role.name("d");
    member.role = role;
    member
}

/// `d.draining-now` for the name of this moment, `d.draining-5` for the name of five seconds ago.
fn relative(name: &str) -> String {
    let (base, word, since) = match Role::parse(name) {
        (base, Role::Draining { since }) => (base, "draining", since),
        (base, Role::Withdrawn { since }) => (base, "withdrawn", since),
        (base, Role::Trial { since }) => (base, "trial", since),
        _ => return name.to_owned(),
    };
    match now().timestamp() - since {
        0 => format!("{base}.{word}-now"),
        seconds => format!("{base}.{word}-{seconds}"),
    }
}

/// Asserts the decision in each of these scenes.
pub fn check(cases: Vec<(Scene, &str)>) {
    let found = cases
        .into_iter()
        .map(|(scene, expected)| (scene.next(), expected));
    let faults: Vec<_> = found
        .enumerate()
        .filter(|(_, (found, expected))| found != expected)
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}
