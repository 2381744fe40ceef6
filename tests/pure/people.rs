//! The rules of the people's matrix (`tests/matrix/people`), whose binary has no tests of its own.

use std::collections::BTreeSet;

#[allow(dead_code, reason = "what only the matrix itself uses")]
#[path = "../matrix/people/rules/mod.rs"]
mod rules;

use rules::act::{Act, ContainerAct, ImageAct, Target};
use rules::expect::{Condition, End, Expected, Image, Place, Settings, Spare, expected, needs_long_drain};
use rules::stage::{Life, Moment, Stage, stages};

const START_FIRST: &[&str] = &[
    "01-pull",
    "02-create-candidate",
    "03-start-candidate",
    "04-rename-old-to-draining",
    "05-rename-candidate-to-service",
    "06-update-old",
    "07-stop-old",
    "08-remove-old",
];
const STOP_FIRST: &[&str] = &[
    "01-pull",
    "02-create-candidate",
    "03-rename-old-to-draining",
    "04-update-old",
    "05-stop-old",
    "06-start-candidate",
    "07-rename-candidate-to-service",
    "08-remove-old",
];
const AUTO_REMOVE: &[&str] = &[
    "01-pull",
    "02-create-standby",
    "03-create-candidate",
    "04-create-attempt",
    "05-start-candidate",
    "06-rename-old-to-draining",
    "07-rename-candidate-to-service",
    "08-stop-old",
    "09-remove-standby",
    "10-remove-attempt",
];

fn all(rm: bool, stop_first: bool, calls: &[&str]) -> Vec<Stage> {
    let mut recorded = vec![("00+list".to_owned(), false)];
    recorded.extend(calls.iter().map(|call| ((*call).to_owned(), true)));
    stages(rm, stop_first, &recorded)
}

fn stage(stages: Vec<Stage>, name: &str) -> Stage {
    let mut stages = stages.into_iter();
    stages.find(|stage| stage.to_string() == name).expect(name)
}

fn at(name: &str, act: ContainerAct, target: Target) -> Option<Expected> {
    let stage = stage(all(false, false, START_FIRST), name);
    expected(&stage, Act::Container(act, target))
}

#[test]
fn the_stages_are_the_changes_and_the_middle_of_the_proof_and_the_drain() {
    let names: Vec<String> = all(false, true, STOP_FIRST)
        .iter()
        .map(Stage::to_string)
        .collect();
    assert_eq!(
        names,
        [
            "01-before-pull",
            "02-before-create-candidate",
            "03-before-rename-old-to-draining",
            "04-before-update-old",
            "05-before-stop-old",
            "05-drain",
            "06-before-start-candidate",
            "06-proof",
            "07-before-rename-candidate-to-service",
            "08-before-remove-old",
        ]
    );
}

#[test]
fn a_stage_has_the_containers_that_the_calls_have_left() {
    let lives = |stage: &Stage| Target::ALL.map(|target| stage.situation.life(target));
    let (up, created) = (Some(Life::Up), Some(Life::Created));
    let stop_first = || all(false, true, STOP_FIRST);
    assert_eq!(
        lives(&stage(stop_first(), "01-before-pull")),
        [up, None, None, None]
    );
    assert_eq!(
        lives(&stage(stop_first(), "05-drain")),
        [None, created, Some(Life::Stopping), None]
    );
    assert_eq!(
        lives(&stage(stop_first(), "06-proof")),
        [None, up, Some(Life::Ended), None]
    );
    let auto_remove = || all(true, false, AUTO_REMOVE);
    assert_eq!(
        lives(&stage(auto_remove(), "08-drain")),
        [up, None, Some(Life::Stopping), created]
    );
    // It has vanished.
    assert_eq!(
        lives(&stage(auto_remove(), "09-before-remove-standby")),
        [up, None, None, created]
    );
}

#[test]
fn only_what_the_engine_would_do_is_a_point() {
    assert_eq!(at("01-before-pull", ContainerAct::Stop, Target::Candidate), None);
    assert_eq!(at("01-before-pull", ContainerAct::Start, Target::Serving), None);
    assert_eq!(
        at(
            "03-before-start-candidate",
            ContainerAct::Pause,
            Target::Candidate
        ),
        None
    );
    assert_eq!(
        at("08-before-remove-old", ContainerAct::Kill, Target::Draining),
        None
    );
    let pull = stage(all(false, false, START_FIRST), "01-before-pull");
    assert_eq!(expected(&pull, Act::Image(ImageAct::RemoveNew)), None);
    let in_service = stage(all(true, false, AUTO_REMOVE), "03-before-create-candidate");
    let policy = |target| expected(&in_service, Act::Container(ContainerAct::UpdatePolicy, target));
    assert_eq!(policy(Target::Serving), None);
    assert!(policy(Target::Standby).is_some());
}

#[test]
fn what_a_person_stopped_stays_stopped() {
    let stopped = End {
        condition: Condition::Stopped,
        ..End::OLD
    };
    let ends = |name| at(name, ContainerAct::Stop, Target::Serving).unwrap().ends;
    assert_eq!(ends("03-proof"), [stopped]);
    // The rename is on its way.
    assert_eq!(ends("04-before-rename-old-to-draining"), [stopped, End::UPGRADED]);
    // The old one comes back, and the next run upgrades it again; unless it has gone before this one has stopped.
    assert_eq!(ends("07-before-stop-old"), [End::UPGRADED]);
    let new_one = End {
        condition: Condition::Stopped,
        ..End::UPGRADED
    };
    assert_eq!(ends("07-drain"), [new_one, End::UPGRADED]);
}

#[test]
fn what_a_person_set_is_kept() {
    let settings = |name, target| {
        let expected = at(name, ContainerAct::UpdateMemory, target).unwrap();
        expected.ends.iter().map(|end| end.settings).collect::<Vec<_>>()
    };
    assert_eq!(settings("03-proof", Target::Serving), [Settings::Given]);
    assert_eq!(settings("03-proof", Target::Candidate), [Settings::Before]);
    assert_eq!(settings("07-drain", Target::Serving), [Settings::Given]);
    assert_eq!(
        settings("04-before-rename-old-to-draining", Target::Serving),
        [Settings::Either]
    );
    let drain = stage(all(false, true, STOP_FIRST), "05-drain");
    let act = Act::Container(ContainerAct::UpdatePolicy, Target::Draining);
    assert_eq!(expected(&drain, act).unwrap().ends[0].settings, Settings::Given);
}

#[test]
fn what_a_person_renamed_or_made_is_theirs() {
    let renamed = at("03-proof", ContainerAct::Rename, Target::Serving).unwrap();
    assert_eq!(
        (renamed.ends[0].place, renamed.ends[0].image),
        (Place::Kept, Image::New)
    );
    let drained = at("07-drain", ContainerAct::Rename, Target::Draining).unwrap();
    assert_eq!(drained.spare, Spare::Kept { must: true });
    let remade = at("03-proof", ContainerAct::Compose, Target::Candidate).unwrap();
    assert_eq!(
        (remade.ends.as_slice(), remade.spare),
        ([End::OLD].as_slice(), Spare::Remade)
    );
}

#[test]
fn a_delegate_works_at_every_moment_unless_somebody_takes_it_out_of_service() {
    assert!(
        at("03-proof", ContainerAct::Kill, Target::Candidate)
            .unwrap()
            .no_gap
    );
    assert!(
        !at("03-proof", ContainerAct::Kill, Target::Serving)
            .unwrap()
            .no_gap
    );
}

#[test]
fn a_drain_that_somebody_meddles_with_is_long() {
    let drain = stage(all(false, false, START_FIRST), "07-drain");
    assert_eq!((drain.moment, drain.kind()), (Moment::After, "stop-old"));
    assert!(needs_long_drain(
        &drain,
        Act::Container(ContainerAct::Stop, Target::Serving)
    ));
    let proof = stage(all(false, false, START_FIRST), "03-proof");
    assert!(!needs_long_drain(&proof, Act::Image(ImageAct::TagOld)));
}

#[test]
fn no_two_acts_have_the_same_name() {
    let acts = Act::all();
    let names: BTreeSet<String> = acts.iter().map(Act::to_string).collect();
    assert_eq!(names.len(), acts.len());
}
