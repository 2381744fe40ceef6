//! Rollouts put together by hand, so that a test reads as a sentence.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::{Strategy, Timing};
use delegate_upgrader::container::RunState;
use delegate_upgrader::container::{ContainerId, ImageId, OWN_WORKLOAD, Role};
use delegate_upgrader::document::SingleInstance;
use delegate_upgrader::health::{Health, HealthStatus, Probe, Work};
use delegate_upgrader::host::hold::Holds;
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{
    CommonCause, Condition, Decided, Decision, Desired, Facts, History, Intent, Member, OwnerLimits, Policy,
    Reach, Rollout, Step, StoppedBy, Stopper, UnhealthyPeer, next,
};
use delegate_upgrader::schedule::wave::Place;
use delegate_upgrader::text::duration;

pub const V1: &str = "harness/delegate:26.01.1";
pub const V2: &str = "harness/delegate:26.02.1";
pub const V3: &str = "harness/delegate:26.03.1";

pub const HEALTHY_TIME: i64 = 60;
pub const DEADLINE: i64 = 600;
pub const STOP_TIMEOUT: i64 = 3600;

/// The moment of every test.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

/// So many seconds before it.
pub fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

pub fn image_id(reference: &str) -> ImageId {
    ImageId::new(format!("sha256:{reference}"))
}

/// A delegate of that id that has run for a day, as its owner made it: healthy, `--restart unless-stopped`.
fn delegate(id: &str, reference: &str) -> Member {
    Member {
        id: ContainerId::new(id),
        name: String::new(),
        role: Role::Serving,
        state: RunState::Running,
        health: verdict(HealthStatus::Healthy),
        work: None,
        image_id: image_id(reference),
        image: reference.into(),
        replaces: None,
        is_copy: false,
        release: 0,
        previous_image: None,
        previous_image_id: None,
        rolled_back_from: None,
        restart_policy: "unless-stopped".to_owned(),
        predecessor_policy: None,
        predecessor_condition: Condition::Working,
        auto_remove: false,
        settings: 0,
        memory_limit: None,
        created_at: ago(86_400),
        started_at: Some(ago(86_400)),
        finished_at: None,
        restart_count: 0,
        ending: "exited with code 3".to_owned(),
        failed_to_start: false,
        stop_timeout: Duration::from_secs(3600),
        history: Box::default(),
    }
    .change(|m| m.history.compared_settings = Some(0))
    .seen_healthy_for(86_400)
}

fn verdict(status: HealthStatus) -> Health {
    Health {
        status,
        probe: Probe::Http,
        detail: format!("/api/health says {}", status.as_str()),
        failed_checks: 0,
    }
}

/// The delegate before any upgrade: image V1.
pub fn old() -> Member {
    delegate("old", V1)
}

/// Its successor, created with V2 and never started.
pub fn new() -> Member {
    let mut member = delegate("new", V2);
    member.replaces = Some(ContainerId::new("old"));
    member.release = 1;
    member.previous_image = Some(V1.into());
    member.previous_image_id = Some(image_id(V1));
    member.predecessor_policy = Some("unless-stopped".to_owned());
    member.created_at = ago(1000);
    member.created()
}

/// An upgrader of the new image, which is to make the exchange; never started.
pub fn helper() -> Member {
    let mut member = delegate("helper", V2);
    member.replaces = Some(ContainerId::new("old"));
    member.created_at = ago(999);
    member.created()
}

/// A copy of the old one, without `--rm`, never started.
pub fn standby() -> Member {
    let mut member = delegate("standby", V1);
    member.replaces = Some(ContainerId::new("old"));
    member.created_at = ago(1001);
    member.created().policy("no")
}

/// What can be said of a member.
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

    /// Executes so many tasks, as it says itself.
    fn tasks(self, tasks: u64) -> Self {
        let is_connected = None;
        self.change(|m| m.work = Some(Work { tasks, is_connected }))
    }

    /// Never started.
    fn created(self) -> Self {
        self.change(|m| {
            m.state = RunState::Created;
            m.started_at = None;
            m.health = verdict(HealthStatus::Unhealthy);
            *m.history = History::default();
        })
    }

    /// Running since so many seconds, seen from the first, and healthy since so many.
    fn running(self, since: i64, healthy: i64) -> Self {
        self.change(|m| {
            m.state = RunState::Running;
            m.started_at = Some(ago(since));
            m.history.seen_since = Some(ago(since));
        })
        .seen_healthy_for(healthy)
    }

    /// Running, but not healthy since so many seconds.
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

    /// Ended so many seconds ago.
    fn exited(self, seconds: i64) -> Self {
        self.state(RunState::Exited)
            .change(|m| m.finished_at = Some(ago(seconds)))
    }

    fn restarts(self, count: u64) -> Self {
        self.change(|m| m.restart_count = count)
    }

    fn policy(self, policy: &str) -> Self {
        self.change(|m| policy.clone_into(&mut m.restart_policy))
    }

    /// Told to stop by this process so many seconds ago, its policy off.
    fn asked_to_stop(self, seconds: i64) -> Self {
        self.policy("no")
            .change(|m| m.history.stop_requested_at = Some(ago(seconds)))
    }

    /// Something from outside was seen to be in the way so many seconds ago.
    fn common_cause(self, seconds: i64) -> Self {
        self.change(|m| {
            m.history.common_cause = Some((ago(seconds), "the Manager is out of reach".into()));
        })
    }

    /// A delegate with another image was seen to do no better so many seconds ago.
    fn unhealthy_peer(self, seconds: i64, peer: UnhealthyPeer) -> Self {
        let cause = CommonCause {
            what: "e is unhealthy too".to_owned(),
            peer: Some(peer),
        };
        self.change(|m| m.history.common_cause = Some((ago(seconds), cause)))
    }

    /// Stopped, or asked to stop, in the way that is known.
    fn stopped_by(self, by: StoppedBy) -> Self {
        self.change(|m| m.history.stopper = Some(stopped_by(by, m)))
    }

    /// Asked for long ago: nobody knows who stopped it.
    fn stopped_by_whom(self) -> Self {
        self.stopped_by(StoppedBy::Nobody).change(|m| {
            let stopper = m.history.stopper.as_mut().unwrap();
            (stopper.asked_at, stopper.finished_at) = (ago(11), Some(ago(86_400)));
        })
    }

    fn auto_remove(self) -> Self {
        self.policy("no").change(|m| m.auto_remove = true)
    }
}

impl Change for Member {
    fn change(mut self, change: impl FnOnce(&mut Member)) -> Self {
        change(&mut self);
        self
    }
}

/// A rollout, what is wished for it, and what is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub rollout: Rollout,
    pub desired: Desired,
    pub policy: Policy,
    pub facts: Facts,
}

/// Nothing is paused, and the image was first seen an hour ago.
pub fn holds() -> Holds {
    Holds {
        pause: None,
        image: "harness/delegate:26.02.1".to_owned(),
        first_seen: Some(ago(3600)),
        place: Place::of("host", "image"),
    }
}

impl Scene {
    /// No container; nothing new is wished for.
    pub fn new() -> Self {
        Self {
            rollout: Rollout {
                name: "d".to_owned(),
                workload: "docker-delegate".to_owned(),
                serving: None,
                candidate: None,
                draining: Vec::new(),
                withdrawn: Vec::new(),
                standby: None,
                failed: Vec::new(),
                attempt: None,
                helper: None,
                opted_out: None,
                task_of: None,
                limits: OwnerLimits::default(),
                single_instance: None,
                no_free_port: None,
                strategy: None,
                name_conflict: None,
                taken_names: Vec::new(),
                vanished: Vec::new(),
                renamed_predecessor: None,
                ending_elsewhere: 0,
                retained_images: Vec::new(),
                obstacle: None,
                inspect_error: None,
            },
            desired: Desired::Keep(Reason::AwaitingSchedule { published: None }),
            policy: Policy {
                health_only: false,
                strategy: Strategy::Auto,
                healthy_time: Duration::from_secs(60),
                healthy_deadline: Duration::from_secs(600),
                idle_wait: Duration::from_secs(3600),
                restarts_unhealthy: false,
                timing: Timing::default(),
            },
            // All that can be asked for is known, and nothing stands in the way.
            facts: Facts {
                free_memory: Some(Ok(())),
                hidden_obstacle: Some(Ok(())),
                removed_by: Some(StoppedBy::Nobody),
                manager: Some(Reach::Reachable),
                holds: Some(Ok(holds())),
                ..Facts::default()
            },
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

    /// Renamed so many seconds ago.
    pub fn draining(mut self, seconds: i64, member: Member) -> Self {
        let role = Role::Draining {
            since: ago(seconds).timestamp(),
        };
        self.rollout.draining.push(named(member, role));
        self.rollout.draining.sort_by_key(|member| member.role);
        self
    }

    /// Withdrawn so many seconds ago.
    pub fn withdrawn(mut self, seconds: i64, member: Member) -> Self {
        let role = Role::Withdrawn {
            since: ago(seconds).timestamp(),
        };
        self.rollout.withdrawn.push(named(member, role));
        self
    }

    pub fn standby(mut self, member: Member) -> Self {
        self.rollout.standby = Some(named(member, Role::Standby));
        self
    }

    /// Rejected before the run began.
    pub fn failed(mut self, attempt: u32, member: Member) -> Self {
        self.facts.known_rejections.push(member.id.clone());
        self.rollout.failed.push(named(member, Role::Failed { attempt }));
        self
    }

    pub fn attempt(mut self, member: Member) -> Self {
        self.rollout.attempt = Some(named(member, Role::Attempt));
        self
    }

    pub fn helper(mut self, member: Member) -> Self {
        let role = Role::Helper { is_ready: false };
        self.rollout.helper = Some(named(member, role));
        self
    }

    /// The helper says that it is ready.
    pub fn ready_helper(mut self, member: Member) -> Self {
        let role = Role::Helper { is_ready: true };
        self.rollout.helper = Some(named(member, role));
        self
    }

    /// Not a delegate, but an upgrader of which two cannot run at once.
    pub fn upgrader(self) -> Self {
        self.host_network()
            .with(|rollout| OWN_WORKLOAD.clone_into(&mut rollout.workload))
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

    /// Who wants the image.
    pub fn demanded(mut self, by: Intent) -> Self {
        if let Desired::Image { intent, .. } = &mut self.desired {
            *intent = by;
        }
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

    pub fn settle(mut self, reason: Reason) -> Self {
        self.desired = Desired::Keep(reason);
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Rollout)) -> Self {
        change(&mut self.rollout);
        self
    }

    pub fn host_network(self) -> Self {
        self.with(|rollout| rollout.single_instance = Some(SingleInstance::HostNetwork))
    }

    pub fn strategy(self, strategy: Strategy) -> Self {
        self.policy(|policy| policy.strategy = strategy)
    }

    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    pub fn knowing(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    pub fn decided(&self) -> Decided {
        next(&self.rollout, &self.desired, &self.policy, &self.facts, now())
    }

    pub fn decision(&self) -> Decision {
        self.decided().decision
    }

    /// The step in words, with its reason or cause where it has one.
    pub fn next(&self) -> String {
        let step = match self.decision() {
            Decision::Rest(reason) => return format!("rest: {}", reason.kind()),
            Decision::Wait { reason, until } => {
                return format!("wait {} s: {}", (until - now()).num_seconds(), reason.kind());
            }
            Decision::Learn(fact) => return format!("find out {fact}"),
            Decision::Act(step) => step,
        };
        match step {
            Step::NoteFirstSeen { image } => format!("note that {image} is first seen"),
            Step::Reject { id, to, cause, .. } => format!("reject {id} as {to}: {cause}"),
            Step::SetAside { id, to, .. } => format!("set {id} aside as {to}"),
            Step::Rename { id, to } => format!("rename {id} back to {to}"),
            Step::Create {
                from,
                reference,
                release,
                ..
            } => format!("create from {from}: {reference}, release {release}"),
            Step::Withdraw {
                id,
                to,
                because: None,
            } => format!("withdraw {id} as {}", relative(&to)),
            Step::Withdraw {
                id,
                to,
                because: Some(reason),
            } => format!("withdraw {id} as {}: {}", relative(&to), reason.kind().as_str()),
            Step::CreateAttemptMarker { candidate, image } => format!("mark {image} as tried by {candidate}"),
            Step::Retire { id, to } => format!("retire {id} as {}", relative(&to)),
            Step::Pull { reference } => format!("pull {reference}"),
            Step::CreateHelper { from, image } => format!("make a helper of {from} with {image}"),
            Step::CreateStandby { from } => format!("make a standby copy of the old container ({from})"),
            Step::Recreate { from } => format!("create the old container again, from {from}"),
            Step::Start { id, name } => format!("start {} ({id})", relative(&name)),
            Step::Promote { id, to } => format!("promote the candidate ({id}) to {to}"),
            Step::Restore { id, to } => format!("restore the old container ({id}) as {to}"),
            Step::SetRestartPolicy { id, name, policy } => {
                format!("set the restart policy of {} ({id}) to {policy}", relative(&name))
            }
            Step::Stop { id, name, grace } => {
                format!(
                    "tell {} ({id}) to stop within {}",
                    relative(&name),
                    duration::text(grace)
                )
            }
            Step::Restart {
                id, grace, failures, ..
            } => {
                let grace = duration::text(grace);
                format!("restart {id} within {grace} after {failures} failures")
            }
            Step::Remove { id, name } => format!("remove {} ({id})", relative(&name)),
            Step::RemoveImage { id } => format!("remove the image {id}, two releases old"),
        }
    }

    /// The reason of a rest or a wait.
    pub fn reason(&self) -> Reason {
        let decision = self.decision();
        decision.reason().unwrap_or_else(|| panic!("{decision}")).clone()
    }
}

pub fn parsed(reference: &str) -> ImageReference {
    reference.parse().unwrap()
}

fn named(mut member: Member, role: Role) -> Member {
    // Of one that drains an engine has mostly forgotten the beginning.
    let by = match role {
        Role::Draining { .. } => StoppedBy::Unknown,
        _ => StoppedBy::Nobody,
    };
    member.name = role.name("d");
    member.role = role;
    let stopper = stopped_by(by, &member);
    member.history.stopper.get_or_insert(stopper).role = role;
    member
}

/// The answer of now to the question who stopped it.
pub fn stopped_by(by: StoppedBy, member: &Member) -> Stopper {
    Stopper {
        by,
        role: member.role,
        asked_at: now(),
        started_at: member.started_at,
        finished_at: member.finished_at,
    }
}

/// `d.draining-now` for the name it gets at this moment, `d.draining-5` for five seconds ago.
fn relative(word: &str) -> String {
    match Role::parse(word) {
        (base, Role::Draining { since }) => match now().timestamp() - since {
            0 => format!("{base}.draining-now"),
            seconds => format!("{base}.draining-{seconds}"),
        },
        (base, Role::Withdrawn { since }) => match now().timestamp() - since {
            0 => format!("{base}.withdrawn-now"),
            seconds => format!("{base}.withdrawn-{seconds}"),
        },
        _ => word.to_owned(),
    }
}
