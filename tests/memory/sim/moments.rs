//! What must hold at every moment: the judge replays the events, and checks each against the containers at that time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::container::Role;

use super::book::Book;
use super::claims::Part;
use super::scenario::{Delegate, Kind, Way};
use super::standing::original_name;
use super::world::World;
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
    calls: Vec<Call>,
    shadows: BTreeMap<String, Shadow>,
    /// When a person last removed or renamed a container that may have been a successor, by delegate.
    taken_away: BTreeMap<String, Duration>,
    /// Of these delegates somebody removed the one in service, or stopped one with `--rm`.
    removed: BTreeSet<String>,
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
        for event in self.world.twin.events() {
            while let Some((_, index)) = policies.pop_if(|(at, _)| *at <= event.at) {
                let call = &self.calls[index];
                if let Some(shadow) = call.id.as_ref().and_then(|id| self.shadows.get_mut(id.as_str())) {
                    shadow.policy_off = call.detail == "no";
                }
            }
            self.replay(&event);
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
                let shadow = self.shadow(&event.id);
                shadow.running = Some(event.at);
                shadow.stop_requested = None;
                shadow.stopped_by_operator = false;
                // A container that a person started also survives a restart of the engine.
                if shadow.started_by != Cause::OperatorAction || matches!(event.cause, Cause::Call(_)) {
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
                if shadow.stop_requested.is_none() {
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

    /// A serving container may be asked to stop only if another one serves, or if the order is stop-first and its
    /// successor is ready.
    fn check_stop(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        // A rejected container that a restart of the engine started again does not serve.
        let is_rejected = matches!(
            Role::parse(&shadow.name).1,
            Role::Failed { .. } | Role::Inconclusive { .. } | Role::Withdrawn { .. }
        );
        if is_rejected || !shadow.served || !self.serves(shadow, event.at) || self.another_serves(event) {
            return;
        }
        // If health comes and goes, of one image or of all, the verdict may have come at a bad moment.
        if !self.kind(shadow).serves() || self.outage(event.at) {
            return;
        }
        let way = self.delegate(&event.name).map(|delegate| delegate.way);
        // Somebody may have started it since it was observed.
        let age = self.observation_age();
        let next_is_ready = self.another(event, |role, other| {
            let is_unseen = other.running.is_none_or(|since| event.at - since < age);
            matches!(role, Role::Candidate | Role::Standby) && is_unseen
        });
        // Or the successor was ready at the last observation.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let is_recent = |age| taken_away.is_some_and(|at| event.at - *at < age);
        let was_ready = is_recent(self.observation_age());
        let delegate = self.delegate(&event.name);
        let is_off = shadow.policy_off || delegate.is_some_and(|delegate| delegate.policy == "no");
        if way == Some(Way::StopFirst) && (next_is_ready || was_ready) {
            return;
        }
        // Or it was between two lives when that was decided, its proven successor beside it, and the call took its time.
        let sent = match event.cause {
            Cause::Call(index) => self.calls[index].at,
            _ => event.at,
        };
        let is_new_life = shadow.running.is_some_and(|since| since > sent);
        let is_proven = |role: Role, other: &Shadow| role == Role::Candidate && self.works(other, event.at);
        if is_new_life && self.another(event, is_proven) {
            return;
        }
        // Without a policy, nobody can tell whether a call that failed was the one that asked it to stop.
        if is_off && is_recent(self.observation_age() + RETRY_PAUSE) {
            return;
        }
        // An --rm delegate has no policy that could show this; its standby takes its place.
        let standby = self.another(event, |role, other| {
            role == Role::Standby && other.running.is_none()
        });
        if standby || self.book.excuses.names.contains(Role::parse(&event.name).0) {
            return;
        }
        // An earlier process may have asked it to stop, which no engine shows: only a new life is sure to last.
        let rejected = self.another(event, |role, _| {
            matches!(
                role,
                Role::Failed { .. } | Role::Inconclusive { .. } | Role::Withdrawn { .. }
            )
        });
        if is_off && (rejected || self.book.excuses.of(Role::parse(&event.name).0).policy_is_lost) {
            return;
        }
        self.violated(event, "the last serving container was asked to stop");
    }

    /// No container may be killed before its stop timeout is over.
    fn check_kill(&mut self, event: &Event) {
        let shadow = &self.shadows[&event.id];
        let Some(stop_requested) = shadow.stop_requested.filter(|_| !shadow.stopped_by_operator) else {
            return;
        };
        if self.book.excuses.handled.contains(&event.id) {
            return;
        }
        let had = event.at - stop_requested;
        if had + Duration::from_millis(1) < self.world.scenario.stop_timeout {
            self.violations.push(format!(
                "killed after {had:?} of {:?}: {} at {:?}",
                self.world.scenario.stop_timeout, event.name, event.at
            ));
        }
    }

    /// Two containers of a stop-first delegate must not run at once. A call that took long may have been overtaken.
    fn check_single_instance(&mut self, event: &Event) {
        if let Cause::Call(index) = event.cause
            && event.at - self.calls[index].at > OBSERVATION_AGE
        {
            return;
        }
        let Some(delegate) = self
            .delegate(&event.name)
            .filter(|delegate| delegate.way == Way::StopFirst)
        else {
            return;
        };
        // Another upgrader gave it up since this one looked, right after a person had taken a part of it away.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let is_recent =
            taken_away.is_some_and(|at| event.at - *at < OBSERVATION_AGE + Duration::from_secs(1));
        let is_given_up = |other: &Event| match (&other.what, other.cause, event.cause) {
            (Happened::Renamed { .. }, Cause::Call(by), Cause::Call(index)) => {
                other.id == event.id
                    && matches!(Role::parse(&other.name).1, Role::Withdrawn { .. })
                    && self.calls[by].client != self.calls[index].client
                    && other.at <= event.at
                    && event.at < other.at + Duration::from_secs(1)
            }
            _ => false,
        };
        if is_recent && self.world.twin.events().iter().any(is_given_up) {
            return;
        }
        let claims = &self.book.claims;
        let line = claims.line_of(Role::parse(&event.name).0);
        let is_double = line.is_some_and(|line| claims.lines[line].is_double);
        // Someone gave it back the policy with which the engine starts it.
        let is_touched = |id: &str| {
            let mut touches = claims.touches.iter();
            touches.any(|touch| touch.id.as_str() == id && touch.part == Part::Policy)
        };
        let has_policy = event.cause == Cause::Engine && is_touched(&event.id);
        // The engine started the other one by the policy that someone gave it, and this one only goes on crashing, or
        // comes back with the engine from a life that nobody had asked to end.
        let base = self.parse(&event.name).0;
        let is_other = |(id, other): (&String, &Shadow)| {
            *id != event.id
                && self.parse(&other.name).0 == base
                && other.running.is_some()
                && other.started_by == Cause::Engine
                && is_touched(id)
        };
        let goes_on = match event.cause {
            Cause::Itself => true,
            Cause::Engine => self.shadows[&event.id].stop_requested.is_none(),
            _ => false,
        };
        let goes_on = goes_on && self.shadows.iter().any(is_other);
        let other = !is_double
            && !has_policy
            && !goes_on
            && self.another(event, |_, other| {
                other.running.is_some() && other.started_by != Cause::OperatorAction
            });
        if other {
            let name = delegate.name.clone();
            self.violated(event, &format!("two containers of {name} run at once"));
        }
    }

    /// A container that served may be removed only while its successor works.
    fn check_removal(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        // What it was decided by may have changed while the call was on its way.
        let is_slow =
            matches!(event.cause, Cause::Call(index) if event.at - self.calls[index].at > OBSERVATION_AGE);
        let is_rejected = matches!(
            Role::parse(&shadow.name).1,
            Role::Failed { .. } | Role::Inconclusive { .. } | Role::Withdrawn { .. }
        );
        // Someone renamed it between the observation and the removal.
        let renamed = self.book.excuses.names.contains(&event.name);
        if !shadow.served || is_rejected || renamed || is_slow {
            return;
        }
        let successor = self.another(event, |role, other| {
            role == Role::Serving && self.works(other, event.at)
        });
        // Or it worked at the last observation, and then a person removed or renamed it.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let just_now = taken_away.is_some_and(|at| event.at - *at < self.observation_age());
        // What somebody removed stays removed; what they keep under another name, stopped, does not have its name.
        let names = &self.book.excuses.names;
        let has_name = self.another(event, |role, other| {
            role == Role::Serving && (other.running.is_some() || !names.contains(&other.name))
        });
        let is_unwanted = !has_name && self.removed.contains(self.parse(&event.name).0);
        // Or under the name that a person gave it.
        let mut others = self.shadows.values();
        let kept = others.any(|other| names.contains(&other.name) && self.works(other, event.at));
        if !successor && !just_now && !is_unwanted && !kept {
            self.violated(event, "removed without a working successor");
        }
    }
}
