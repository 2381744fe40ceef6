//! What must hold at every moment: the judge replays the events, and checks each against the containers at that time.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::Role;

use crate::sim::book::Book;
use crate::sim::claims::Part;
use crate::sim::scenario::{Delegate, Kind, Way};
use crate::sim::standing::original_name;
use crate::sim::world::World;
use kit::twin::{Call, Cause, Event, Happened, Operation};

/// How old an observation may be when a step that rests on it takes effect.
const OBSERVATION_AGE: Duration = Duration::from_secs(2);
/// How long an upgrader waits after a call that failed, before it observes again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How late the engine's own HEALTHCHECK reports a change.
const PROBES: Duration = Duration::from_secs(15);
/// The same when calls are slow or lost.
const OBSERVATION_AGE_WITH_DELAYS: Duration = Duration::from_secs(90);

/// A container's state after the events so far.
struct Shadow {
    name: String,
    image: usize,
    running: Option<Duration>,
    /// Its last life that is over, or in which it was asked to stop: its beginning, and that moment.
    past: Option<(Duration, Duration)>,
    stop_requested: Option<Duration>,
    stopped_by_operator: bool,
    started_by: Cause,
    ended: Option<Duration>,
    /// It held the delegate's name while it ran.
    served: bool,
    policy_off: bool,
}

pub(super) struct Moments<'a> {
    world: &'a World,
    book: &'a Book,
    calls: Arc<Vec<Call>>,
    shadows: BTreeMap<String, Shadow>,
    /// When a person last removed or renamed a container that may have been a successor, by delegate.
    taken_away: BTreeMap<String, Duration>,
    /// Of these delegates somebody removed the one in service, or stopped one with `--rm`.
    removed: BTreeSet<String>,
    /// Of these delegates the engine started what somebody keeps, by the policy that they gave it: there are two.
    doubled: BTreeSet<String>,
    /// Delegates with `--rm` that vanished right after a person had removed their copies.
    vanished_too_soon: BTreeSet<String>,
    violations: Vec<String>,
}

impl<'a> Moments<'a> {
    pub(super) fn new(world: &'a World, book: &'a Book) -> Self {
        Self {
            world,
            book,
            calls: world.twin.calls(),
            shadows: BTreeMap::new(),
            taken_away: BTreeMap::new(),
            removed: BTreeSet::new(),
            doubled: BTreeSet::new(),
            vanished_too_soon: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    pub(super) fn judge(mut self) -> (Vec<String>, BTreeSet<String>) {
        let mut policies: Vec<(Duration, usize)> = self
            .calls
            .iter()
            .filter(|call| call.operation == Operation::SetRestartPolicy)
            .map(|call| (call.at, call.index))
            .collect();
        policies.reverse();
        for event in self.world.twin.events().iter() {
            while let Some((_, index)) = policies.pop_if(|(at, _)| *at <= event.at) {
                let call = &self.calls[index];
                if let Some(shadow) = call.id.as_ref().and_then(|id| self.shadows.get_mut(id.as_str())) {
                    shadow.policy_off = call.detail == "no";
                }
            }
            self.replay(event);
        }
        (self.violations, self.vanished_too_soon)
    }

    fn violated(&mut self, event: &Event, rule: &str) {
        self.violations.push(format!(
            "{rule}: {} at {:?} ({:?})",
            event.name, event.at, event.what
        ));
    }

    fn delegate(&self, name: &str) -> Option<&'a Delegate> {
        let (base, _) = self.parse(name);
        self.world
            .scenario
            .delegates
            .iter()
            .find(|delegate| delegate.name == base)
    }

    /// A name's delegate, whatever name people gave it, and its role.
    fn parse<'b>(&self, name: &'b str) -> (&'b str, Role)
    where
        'a: 'b,
    {
        let (base, role) = Role::parse(name);
        (original_name(self.world, &self.book.claims, base), role)
    }

    fn replay(&mut self, event: &Event) {
        let ours = matches!(event.cause, Cause::Call(_));
        if event.id == self.world.stranger.as_str() {
            if ours {
                self.violated(event, "a stranger was touched");
            }
            return;
        }
        if ours
            && let Some(delegate) = self.delegate(&event.name)
            && delegate.way == Way::LeftAlone
        {
            self.violated(event, "a delegate that opted out was touched");
        }
        match &event.what {
            Happened::Created => {
                let image = self
                    .world
                    .image_of(&event.image)
                    .expect("it is one of the scenario's");
                self.shadows.insert(
                    event.id.clone(),
                    Shadow {
                        name: event.name.clone(),
                        image,
                        running: None,
                        past: None,
                        stop_requested: None,
                        stopped_by_operator: false,
                        started_by: Cause::Itself,
                        ended: None,
                        served: false,
                        policy_off: false,
                    },
                );
            }
            Happened::Started => {
                let began = self.shadow(&event.id).started_by;
                let by_hand =
                    event.cause == Cause::OperatorAction || (began == Cause::OperatorAction && !ours);
                if !by_hand {
                    self.check_single_instance(event);
                }
                // What somebody gave another name does not serve by that.
                let is_given = self.book.excuses.names.contains(&event.name);
                let is_beside = self.another(event, |role, other| {
                    let is_its_own = matches!(role, Role::Serving | Role::Candidate | Role::Draining { .. });
                    is_its_own && other.name != event.name
                });
                if is_given && is_beside && event.cause == Cause::Engine && self.has_set_policy(&event.id) {
                    self.doubled.insert(self.parse(&event.name).0.to_owned());
                }
                let shadow = self.shadow(&event.id);
                shadow.running = Some(event.at);
                shadow.stop_requested = None;
                shadow.stopped_by_operator = false;
                // A container that a person started also survives a restart of the engine; one that its own policy starts
                // again only goes on.
                let goes_on = shadow.started_by == Cause::OperatorAction || event.cause == Cause::Itself;
                if !goes_on || ours {
                    shadow.started_by = event.cause;
                }
                shadow.served |= Role::parse(&shadow.name).1 == Role::Serving && !is_given;
            }
            Happened::Renamed { .. } => {
                if event.cause == Cause::OperatorAction {
                    let was = self.shadow(&event.id).name.clone();
                    let base = self.parse(&was).0.to_owned();
                    self.taken_away.insert(base, event.at);
                }
                let shadow = self.shadow(&event.id);
                shadow.name.clone_from(&event.name);
                // What somebody gave another name does not serve by that.
                let serves = Role::parse(&event.name).1 == Role::Serving && ours;
                shadow.served |= shadow.running.is_some() && serves;
            }
            Happened::SignalledAgain | Happened::NotStarted => {}
            Happened::Signalled => {
                if ours {
                    self.check_stop(event);
                }
                let shadow = self.shadow(&event.id);
                shadow.past = shadow.running.map(|since| (since, event.at));
                shadow.stop_requested = Some(event.at);
                shadow.stopped_by_operator = event.cause == Cause::OperatorAction;
            }
            Happened::Exited { code } => {
                if *code == 137 && (ours || event.cause == Cause::Itself) {
                    self.check_kill(event);
                }
                let shadow = self.shadow(&event.id);
                // What a person stops answers until it has stopped.
                if shadow.stop_requested.is_none() || shadow.stopped_by_operator {
                    shadow.past = shadow.running.map(|since| (since, event.at));
                }
                shadow.running = None;
                shadow.ended = Some(event.at);
            }
            Happened::Removed => {
                if ours {
                    self.check_removal(event);
                } else {
                    let (base, _) = self.parse(&event.name);
                    let taken_away = self.taken_away.get(base);
                    let just_now = taken_away.is_some_and(|at| event.at - *at < self.observation_age());
                    if self.shadows[&event.id].served && just_now {
                        self.vanished_too_soon.insert(base.to_owned());
                    }
                    self.taken_away.insert(base.to_owned(), event.at);
                    if Role::parse(&event.name).1 == Role::Serving {
                        self.removed.insert(base.to_owned());
                    }
                }
                self.shadows.remove(&event.id);
            }
        }
    }

    /// Whether someone set the policy of that container.
    fn has_set_policy(&self, id: &str) -> bool {
        let mut touches = self.book.claims.touches.iter();
        touches.any(|touch| touch.id.as_str() == id && touch.part == Part::Policy)
    }

    fn shadow(&mut self, id: &str) -> &mut Shadow {
        self.shadows.get_mut(id).expect("it was created")
    }

    fn kind(&self, shadow: &Shadow) -> Kind {
        self.world.scenario.images[shadow.image].kind
    }

    /// Whether it works now, or did at the last observation: no upgrader could know what a person, a crash or its
    /// health changed since then.
    fn works(&self, shadow: &Shadow, now: Duration) -> bool {
        // A container that a person stops answers until it has stopped.
        let present = shadow
            .running
            .filter(|_| shadow.stop_requested.is_none() || shadow.stopped_by_operator)
            .map(|since| (since, now));
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let probed = self
            .delegate(&shadow.name)
            // A container that a person renamed is still the same one.
            .is_none_or(|delegate| !delegate.body["Healthcheck"].is_null());
        let late = if probed { PROBES } else { Duration::ZERO };
        let window = self.observation_age() + late;
        present.into_iter().chain(shadow.past).any(|(since, until)| {
            let moments = (0..=window.as_millis())
                .step_by(500)
                .map(|ago| now.saturating_sub(Duration::from_millis(u64::try_from(ago).unwrap())));
            // The last moment of a life is one of them, however short its health was.
            let last = (now - until <= window).then_some(until);
            moments
                .chain(last)
                .any(|at| since <= at && at <= until && behaviour.is_healthy_at(at - since))
        })
    }

    /// Whether it serves at this moment.
    fn serves(&self, shadow: &Shadow, now: Duration) -> bool {
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let since = shadow.running.filter(|_| shadow.stop_requested.is_none());
        since.is_some_and(|since| behaviour.is_healthy_at(now - since))
    }

    fn observation_age(&self) -> Duration {
        if self.faults_can_delay() {
            OBSERVATION_AGE_WITH_DELAYS
        } else {
            OBSERVATION_AGE
        }
    }

    fn faults_can_delay(&self) -> bool {
        let faults = &self.world.scenario.faults;
        faults.slow + faults.lost_answer + faults.lost_request > 0
    }

    fn outage(&self, now: Duration) -> bool {
        let before = self.world.scenario.healthy_deadline * 2;
        self.book
            .outages
            .iter()
            .any(|(from, to)| *from <= now && now <= *to + before)
    }

    /// Whether another container of the same delegate serves.
    fn another_serves(&self, event: &Event) -> bool {
        let (base, _) = self.parse(&event.name);
        self.shadows.iter().any(|(id, shadow)| {
            let (other, role) = self.parse(&shadow.name);
            *id != event.id
                && other == base
                && matches!(role, Role::Serving | Role::Draining { .. })
                && self.works(shadow, event.at)
        })
    }

    fn another(&self, event: &Event, is: impl Fn(Role, &Shadow) -> bool) -> bool {
        let (base, _) = self.parse(&event.name);
        self.shadows.iter().any(|(id, shadow)| {
            let (other, role) = self.parse(&shadow.name);
            *id != event.id && other == base && is(role, shadow)
        })
    }
}
