//! What must hold after every single thing that happened, and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::container::{Inspected, Role, RunState, label};
use delegate_upgrader::document::{self, Images};
use serde_json::{Value, json};

use super::excuses::Excuse;
use super::scenario::{Delegate, Kind, MOVING, Way};
use super::world::{Book, World};
use kit::twin::{Call, Cause, Event, Glance, Happened, Operation};

/// A look this old may be what a step was decided on.
const LOOK: Duration = Duration::from_secs(2);
/// How late the engine's own HEALTHCHECK tells.
const PROBES: Duration = Duration::from_secs(15);
/// The same as a look where calls are slow or lost.
const OLD_LOOK: Duration = Duration::from_secs(90);

/// All that was violated.
pub fn judge(world: &World) -> Vec<String> {
    let book = world.book();
    let (mut violations, too_quick) = Moments::new(world, &book).judge();
    // An old image whose health comes and goes excuses each candidate, and two upgraders try in turn.
    if book.endless && world.scenario.images[0].kind != Kind::Flaps {
        violations.push("it does not come to rest".to_owned());
    }
    violations.extend(images_kept(world, &book));
    violations.extend(truth(world, &book));
    violations.extend(ending(world, &book, &too_quick));
    violations
}

/// A container as the events so far tell of it.
struct Shadow {
    name: String,
    image: usize,
    running: Option<Duration>,
    /// The beginning of its last life that is over, or in which it was told to stop, and that moment.
    past: Option<(Duration, Duration)>,
    told: Option<Duration>,
    told_by_hand: bool,
    started_by: Cause,
    ended: Option<Duration>,
    /// It had the delegate's name while it ran.
    served: bool,
    policy_off: bool,
}

struct Moments<'a> {
    world: &'a World,
    book: &'a Book,
    calls: Vec<Call>,
    shadows: BTreeMap<String, Shadow>,
    /// When a person last removed or renamed a container that may have been ready to follow, by delegate.
    taken_away: BTreeMap<String, Duration>,
    /// Delegates with `--rm` that vanished right after a person had removed their copies.
    too_quick: BTreeSet<String>,
    violations: Vec<String>,
}

impl<'a> Moments<'a> {
    fn new(world: &'a World, book: &'a Book) -> Self {
        Self {
            world,
            book,
            calls: world.twin.calls(),
            shadows: BTreeMap::new(),
            taken_away: BTreeMap::new(),
            too_quick: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    fn judge(mut self) -> (Vec<String>, BTreeSet<String>) {
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
            self.take_in(&event);
        }
        (self.violations, self.too_quick)
    }

    fn violated(&mut self, event: &Event, rule: &str) {
        self.violations.push(format!(
            "{rule}: {} at {:?} ({:?})",
            event.name, event.at, event.what
        ));
    }

    fn delegate(&self, name: &str) -> Option<&'a Delegate> {
        let (base, _) = Role::parse(name);
        self.world
            .scenario
            .delegates
            .iter()
            .find(|delegate| delegate.name == base)
    }

    fn take_in(&mut self, event: &Event) {
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
                        told: None,
                        told_by_hand: false,
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
                    self.never_two(event);
                }
                let shadow = self.shadow(&event.id);
                shadow.running = Some(event.at);
                shadow.told = None;
                shadow.told_by_hand = false;
                // What a person has started goes on after a restart of the engine, too.
                if shadow.started_by != Cause::OperatorAction || matches!(event.cause, Cause::Call(_)) {
                    shadow.started_by = event.cause;
                }
                shadow.served |= Role::parse(&shadow.name).1 == Role::Serving;
            }
            Happened::Renamed { .. } => {
                if event.cause == Cause::OperatorAction {
                    let was = self.shadow(&event.id).name.clone();
                    self.taken_away.insert(Role::parse(&was).0.to_owned(), event.at);
                }
                let shadow = self.shadow(&event.id);
                shadow.name.clone_from(&event.name);
                shadow.served |= shadow.running.is_some() && Role::parse(&event.name).1 == Role::Serving;
            }
            Happened::Signalled => {
                if ours {
                    self.may_be_told(event);
                }
                let shadow = self.shadow(&event.id);
                shadow.past = shadow.running.map(|since| (since, event.at));
                shadow.told = Some(event.at);
                shadow.told_by_hand = event.cause == Cause::OperatorAction;
            }
            Happened::Exited { code } => {
                if *code == 137 && (ours || event.cause == Cause::Itself) {
                    self.may_be_killed(event);
                }
                let shadow = self.shadow(&event.id);
                if shadow.told.is_none() {
                    shadow.past = shadow.running.map(|since| (since, event.at));
                }
                shadow.running = None;
                shadow.ended = Some(event.at);
            }
            Happened::Removed => {
                if ours {
                    self.may_be_removed(event);
                } else {
                    let (base, _) = Role::parse(&event.name);
                    let taken_away = self.taken_away.get(base);
                    let just_now = taken_away.is_some_and(|at| event.at - *at < self.look());
                    if self.shadows[&event.id].served && just_now {
                        self.too_quick.insert(base.to_owned());
                    }
                    self.taken_away.insert(base.to_owned(), event.at);
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

    /// Whether it works now, or did when it was looked at last: what a person, a crash or its health did since then
    /// nobody could know.
    fn works(&self, shadow: &Shadow, now: Duration) -> bool {
        // Whom a person told to stop answers until it has stopped.
        let present = shadow
            .running
            .filter(|_| shadow.told.is_none() || shadow.told_by_hand)
            .map(|since| (since, now));
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let probed = self
            .delegate(&shadow.name)
            // Under a name that a person gave it is still the same.
            .is_none_or(|delegate| !delegate.body["Healthcheck"].is_null());
        let late = if probed { PROBES } else { Duration::ZERO };
        let window = self.look() + late;
        present.into_iter().chain(shadow.past).any(|(since, until)| {
            (0..=window.as_millis()).step_by(500).any(|ago| {
                let at = now.saturating_sub(Duration::from_millis(u64::try_from(ago).unwrap()));
                since <= at && at <= until && behaviour.is_healthy_at(at - since)
            })
        })
    }

    /// Whether it serves in this moment.
    fn serves(&self, shadow: &Shadow, now: Duration) -> bool {
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let since = shadow.running.filter(|_| shadow.told.is_none());
        since.is_some_and(|since| behaviour.is_healthy_at(now - since))
    }

    fn look(&self) -> Duration {
        if self.faults_can_delay() { OLD_LOOK } else { LOOK }
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
        let (base, _) = Role::parse(&event.name);
        self.shadows.iter().any(|(id, shadow)| {
            let (other, role) = Role::parse(&shadow.name);
            *id != event.id
                && other == base
                && matches!(role, Role::Serving | Role::Draining { .. })
                && self.works(shadow, event.at)
        })
    }

    fn another(&self, event: &Event, is: impl Fn(Role, &Shadow) -> bool) -> bool {
        let (base, _) = Role::parse(&event.name);
        self.shadows.iter().any(|(id, shadow)| {
            let (other, role) = Role::parse(&shadow.name);
            *id != event.id && other == base && is(role, shadow)
        })
    }

    /// None that serves is told to stop unless another one serves, or stop-first was decided and the next one is ready.
    fn may_be_told(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        // A rejected one that an engine's restart brought back serves nobody.
        let given_up = matches!(
            Role::parse(&shadow.name).1,
            Role::Failed { .. } | Role::Withdrawn { .. }
        );
        if given_up || !shadow.served || !self.serves(shadow, event.at) || self.another_serves(event) {
            return;
        }
        // Health that comes and goes, of an image or of all of them, may have been judged in a bad moment.
        if !self.kind(shadow).serves() || self.outage(event.at) {
            return;
        }
        let way = self.delegate(&event.name).map(|delegate| delegate.way);
        let next_is_ready = self.another(event, |role, other| {
            matches!(role, Role::Candidate | Role::Standby) && other.running.is_none()
        });
        // Or was, when it was looked at.
        let taken_away = self.taken_away.get(Role::parse(&event.name).0);
        let was_ready = taken_away.is_some_and(|at| event.at - *at < self.look());
        let delegate = self.delegate(&event.name);
        let is_off = shadow.policy_off || delegate.is_some_and(|delegate| delegate.policy == "no");
        if way == Some(Way::StopFirst) && next_is_ready
            || was_ready && (way == Some(Way::StopFirst) || is_off)
        {
            return;
        }
        // What was started with --rm has no policy that could tell; its standby takes its place.
        let standby = self.another(event, |role, other| {
            role == Role::Standby && other.running.is_none()
        });
        if standby || self.book.excuses.names.contains(Role::parse(&event.name).0) {
            return;
        }
        // It may have been told by an earlier process, which nobody can ask the engine: only a new life is sure.
        let rejected = self.another(event, |role, _| matches!(role, Role::Failed { .. }));
        if is_off && (rejected || self.book.excuses.of(Role::parse(&event.name).0).policy_is_lost) {
            return;
        }
        self.violated(event, "the last one that serves was told to stop");
    }

    /// Nobody is killed before the time to stop is over.
    fn may_be_killed(&mut self, event: &Event) {
        let shadow = &self.shadows[&event.id];
        let Some(told) = shadow.told.filter(|_| !shadow.told_by_hand) else {
            return;
        };
        if self.book.excuses.handled.contains(&event.id) {
            return;
        }
        let had = event.at - told;
        if had + Duration::from_millis(1) < self.world.scenario.stop_timeout {
            self.violations.push(format!(
                "killed after {had:?} of {:?}: {} at {:?}",
                self.world.scenario.stop_timeout, event.name, event.at
            ));
        }
    }

    /// Where two must not live at once, they do not.
    fn never_two(&mut self, event: &Event) {
        let Some(delegate) = self
            .delegate(&event.name)
            .filter(|delegate| delegate.way == Way::StopFirst)
        else {
            return;
        };
        let other = self.another(event, |_, other| {
            other.running.is_some() && other.started_by != Cause::OperatorAction
        });
        if other {
            let name = delegate.name.clone();
            self.violated(event, &format!("two of {name} live at once"));
        }
    }

    /// What served is removed only while its successor works.
    fn may_be_removed(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        let given_up = matches!(
            Role::parse(&shadow.name).1,
            Role::Failed { .. } | Role::Withdrawn { .. }
        );
        // Somebody gave it another name between the look and the removal.
        let renamed = self.book.excuses.names.contains(&event.name);
        if !shadow.served || given_up || renamed {
            return;
        }
        let successor = self.another(event, |role, other| {
            role == Role::Serving && self.works(other, event.at)
        });
        // Or did, when it was looked at, and then a person took it or its name away.
        let taken_away = self.taken_away.get(Role::parse(&event.name).0);
        let just_now = taken_away.is_some_and(|at| event.at - *at < self.look());
        if !successor && !just_now {
            self.violated(event, "removed without a successor that works");
        }
    }
}

/// The image before the present one stays until the next success, and nothing in use is taken.
fn images_kept(world: &World, book: &Book) -> Vec<String> {
    let mut violations = Vec::new();
    let pruned = book.counts.contains_key("person prunes images");
    let there = world.twin.images();
    for container in world.twin.glance() {
        let Some(document) = world.twin.document(container.id.as_str()) else {
            continue;
        };
        let serves = Role::parse(&container.name).1 == Role::Serving;
        let Some(previous) = document["Config"]["Labels"][label::PREVIOUS_IMAGE_ID].as_str() else {
            continue;
        };
        let kept = there.iter().any(|image| image.as_str() == previous);
        if serves && !kept && !pruned {
            violations.push(format!("the image before that of {} is gone", container.name));
        }
    }
    violations
}

/// A pass that ends without the wished image says that it failed, and why; one that ends with it does not lie.
fn truth(world: &World, book: &Book) -> Vec<String> {
    let mut violations = Vec::new();
    for last in &book.finals {
        let Some(wished) = last.wished else { continue };
        for row in &last.report.delegates {
            if row.message.is_empty() {
                violations.push(format!("no reason for {} at {:?}", row.container, last.at));
            }
            let Some((image, _)) = last.seen.get(&row.container) else {
                continue;
            };
            let runs = world.image_of(image);
            let reference = |index: usize| world.scenario.images[index].reference.as_str();
            let right = runs.is_some_and(|runs| {
                world.same(runs, wished) || (reference(runs) == MOVING && runs == last.published)
            });
            let excused = ["opted_out", "not_running", "health_only", "awaiting_schedule"]
                .contains(&row.reason.as_str());
            if !right && !row.failed && !excused {
                violations.push(format!(
                    "{} runs {:?} and not {}, but the report of upgrader {} at {:?} says: {}",
                    row.container,
                    runs.map(reference),
                    reference(wished),
                    last.upgrader,
                    last.at,
                    row.message
                ));
            }
            if right && ["up_to_date", "same_image"].contains(&row.reason.as_str()) && row.failed {
                violations.push(format!(
                    "{} at {:?} failed for nothing: {}",
                    row.container, last.at, row.message
                ));
            }
        }
    }
    violations
}

/// What is on the host when all has come to rest.
fn ending(world: &World, book: &Book, too_quick: &BTreeSet<String>) -> Vec<String> {
    let mut violations = Vec::new();
    let glance = world.twin.glance();
    let listing = || {
        let all: Vec<String> = glance
            .iter()
            .map(|container| {
                format!(
                    "{} {} {}",
                    container.name,
                    container.state.as_str(),
                    container.image
                )
            })
            .collect();
        all.join(", ")
    };
    for delegate in &world.scenario.delegates {
        let mut excuse = book.excuses.of(&delegate.name);
        excuse.may_be_gone |= too_quick.contains(&delegate.name);
        for problem in ending_of(world, book, delegate, &glance, &excuse) {
            violations.push(format!(
                "at the end, {}: {problem} [{}]",
                delegate.name,
                listing()
            ));
        }
    }
    for container in &glance {
        let (base, _) = Role::parse(&container.name);
        let known = world
            .scenario
            .delegates
            .iter()
            .any(|delegate| delegate.name == base)
            || book
                .excuses
                .names
                .iter()
                .any(|name| *name == container.name || name == base)
            || container.id == world.stranger;
        if !known {
            violations.push(format!("at the end, nobody knows {}", container.name));
        }
    }
    let stranger = glance.iter().find(|container| container.id == world.stranger);
    if stranger.is_none_or(|stranger| stranger.state != RunState::Running) {
        violations.push("at the end, the stranger does not run".to_owned());
    }
    violations
}

fn is_alone(family: &[(Role, &Glance)]) -> bool {
    let others = family
        .iter()
        .filter(|(role, _)| !matches!(role, Role::Failed { .. }));
    others.count() == 1
}

fn ending_of(
    world: &World,
    book: &Book,
    delegate: &Delegate,
    glance: &[Glance],
    excuse: &Excuse,
) -> Vec<String> {
    let mut problems = Vec::new();
    let name = &delegate.name;
    let family: Vec<(Role, &Glance)> = glance
        .iter()
        .filter_map(|container| {
            let (base, role) = Role::parse(&container.name);
            (base == name).then_some((role, container))
        })
        .collect();
    let failed = family
        .iter()
        .filter(|(role, _)| matches!(role, Role::Failed { .. }))
        .count();
    if failed > 1 {
        problems.push(format!("{failed} rejected ones are kept"));
    }
    let serving = family.iter().find(|(role, _)| *role == Role::Serving);
    // Renamed at the moment it ended: an engine stays in the middle of that removal for ever.
    let is_stuck = serving.is_some_and(|(_, serving)| serving.state == RunState::Removing);
    let stands_in = |role: &Role, container: &Glance| {
        is_stuck && *role == Role::Standby && container.state == RunState::Running
    };
    let serving_is_healthy = serving.is_some_and(|(_, serving)| world.twin.health(&serving.id) == Some(true));
    for (role, container) in &family {
        let left = match role {
            Role::Serving => false,
            _ if stands_in(role, container) => false,
            _ if container.state == RunState::Removing => false,
            // Kept until its successor is healthy, and that one's health comes and goes.
            Role::Draining { .. } if container.state == RunState::Exited && !serving_is_healthy => false,
            Role::Draining { .. } if excuse.ports_are_taken => false,
            // An old one whose health comes and goes excuses each candidate, every hour anew.
            Role::Withdrawn { .. } if world.scenario.images[0].kind == Kind::Flaps => {
                container.state != RunState::Running
            }
            Role::Failed { .. } => !matches!(container.state, RunState::Exited | RunState::Created),
            // Somebody took what it was to replace: whatever it is worth, it is all there is.
            Role::Candidate => !(excuse.may_be_gone && is_alone(&family)),
            // It would start if it could.
            Role::Standby => !(excuse.may_be_gone && excuse.ports_are_taken && is_alone(&family)),
            _ => true,
        };
        if left {
            problems.push(format!(
                "{} is left over, {}",
                container.name,
                container.state.as_str()
            ));
        }
    }
    let Some((_, serving)) = family.iter().find(|(role, _)| *role == Role::Serving) else {
        let may_be_gone = excuse.may_be_gone || excuse.ports_are_taken;
        if !may_be_gone && !ended_by_its_image(world, delegate) {
            problems.push("it is lost".to_owned());
        }
        return problems;
    };
    if family.iter().any(|(role, container)| stands_in(role, container)) {
        return problems;
    }
    let document = world.twin.document(serving.id.as_str()).unwrap();
    let image = world.image_of(document["Image"].as_str().unwrap()).unwrap();
    let kind = world.scenario.images[image].kind;
    let runs = serving.state == RunState::Running;
    // Without its policy, a crash is its end.
    let may_be_down = excuse.may_be_stopped
        || excuse.policy_is_lost
        || excuse.no_way_back
        || !kind.serves()
        || ended_by_its_image(world, delegate);
    if !runs && !may_be_down {
        problems.push(format!("it does not run: {}", serving.state.as_str()));
    }
    if runs && kind.serves() && world.twin.health(&serving.id) != Some(true) {
        problems.push("it does not work".to_owned());
    }
    let published = world.scenario.images[book.published].kind;
    if delegate.way == Way::LeftAlone {
        if serving.id != world.ids[name] && !excuse.may_be_gone {
            problems.push("it opted out and was replaced".to_owned());
        }
        return problems;
    }
    // One that was left alone with what the same tag stood for before, and fails with it, halts the others.
    let reference = &world.scenario.images[book.published].reference;
    let halted = glance
        .iter()
        .filter(|other| Role::parse(&other.name).1 == Role::Candidate)
        .any(|other| other.image == *reference || other.state != RunState::Running);
    if published.serves() && !world.same(image, book.published) && runs && !halted {
        problems.push(format!(
            "it runs image {image} ({kind:?}), though {} ({published:?}) is published",
            book.published
        ));
    }
    if published.never_serves() && image == book.published && image != 0 && !excuse.may_be_gone {
        problems.push("it was given an image that cannot serve".to_owned());
    }
    problems.extend(configured(world, delegate, &document, image, |difference| {
        difference.path().contains("RestartPolicy") && excuse.policy_is_lost
                // A copy of it served, when the engine took what serves away: with `--rm` nothing would be left.
                || difference.path().contains("AutoRemove")
                    && (excuse.copy_serves || !runs && excuse.may_be_gone)
    }));
    problems
}

/// An image that fails after it has proven itself, when nothing is left to go back to, takes what its owner's policy
/// does not bring back.
fn ended_by_its_image(world: &World, delegate: &Delegate) -> bool {
    let brought_back = matches!(delegate.policy, "always" | "unless-stopped");
    !brought_back
        && world
            .scenario
            .images
            .iter()
            .any(|image| matches!(image.kind, Kind::CrashesLate))
}

/// Each is configured as it was, but for the image.
fn configured(
    world: &World,
    delegate: &Delegate,
    now: &Value,
    image: usize,
    is_excused: impl Fn(&document::Difference) -> bool,
) -> Vec<String> {
    let document =
        |index: usize| json!({ "Id": world.images[index].id, "Config": world.images[index].config });
    let (old, new) = (document(0), document(image));
    let images = Images { old: &old, new: &new };
    let [original, now] =
        [&world.originals[&delegate.name], now].map(|document| Inspected::new(document.clone()).unwrap());
    document::differences(&original, &now, images)
        .into_iter()
        .filter(|difference| !is_excused(difference))
        .map(|difference| format!("configured otherwise: {difference}"))
        .collect()
}
