//! The nouns of a rollout: the roles of its containers, the facts that are remembered, and the words for reasons.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::container::{ContainerId, Inspected, Role};
use delegate_upgrader::document::{Obstacle, SingleInstance};
use delegate_upgrader::health::{Health, HealthStatus, Probe};
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::rollout::reason::{Reason, ReasonKind, Retry};
use delegate_upgrader::rollout::{
    Check, Decision, Fact, FailureCause, History, Member, Memory, Rollout, Seen, Step,
};

use crate::next::scene::{Change, Scene, ago, helper, new, old};
use crate::reference::kinds;

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
}

fn health(status: HealthStatus) -> Health {
    Health {
        status,
        probe: Probe::Running,
        detail: String::new(),
        failed_checks: 0,
    }
}

/// Records one more check of the life that began at the start.
fn record(history: &mut History, moment: impl Into<Seen>, status: HealthStatus) {
    history.note_life(Some(at(0)), 0);
    history.record(moment, &health(status), Check::Done);
}

fn scene(change: impl FnOnce(Scene) -> Scene) -> Rollout {
    change(Scene::new()).rollout
}

/// Docker restarts a container with such a policy after each end except a stop; a failed start leaves an error.
#[test]
#[rustfmt::skip]
fn a_container_counts_as_stopped_only_if_nothing_else_explains_it() {
    let ended = |policy: &str, error: &str| {
        let state = serde_json::json!({ "Status": "exited", "Error": error });
        let document = serde_json::json!({ "Id": "x", "State": state });
        let member = old()
            .policy(policy)
            .change(|m| m.history.seen_since = Some(ago(900)));
        (member.exited(60), Inspected::new(document).unwrap())
    };
    let asked = |(member, document): (Member, Inspected)| {
        let member = member.asked_to_stop(90);
        (member.change(|m| m.history.stop_requested_at = None), document)
    };
    let unseen = |(member, document): (Member, Inspected)| {
        (member.change(|m| m.history.seen_since = Some(ago(59))), document)
    };
    for (name, (mut member, document), unbroken, expected) in [
        ("stopped", ended("unless-stopped", ""), Some(60), true),
        // After its own crash, an engine starts no container with this policy.
        ("the engine may have restarted", ended("unless-stopped", ""), Some(59), false),
        ("nothing is known of the engine", ended("unless-stopped", ""), None, false),
        ("an engine starts this one before it answers", ended("always", ""), None, true),
        ("no start", ended("always", "no such file"), Some(900), false),
        ("nothing starts it again", ended("no", ""), Some(900), false),
        ("it gives up", ended("on-failure:3", ""), Some(900), false),
        ("by this process, in any life", asked(ended("always", "")), Some(900), false),
        ("perhaps by an earlier process", unseen(ended("always", "")), Some(900), false),
    ] {
        member.note_stop(&document, unbroken.map(ago));
        assert_eq!(member.life.was_stopped, expected, "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn rollout_is_in_progress_until_only_delegate_and_evidence_are_left() {
    let cases = vec![
        (scene(|s| s.serving(old())), (false, false)),
        (scene(|s| s.serving(old()).failed(1, new().exited(5))), (false, false)),
        (scene(|s| s.serving(old()).candidate(new())), (true, true)),
        (scene(|s| s.serving(new()).retired(old())), (true, false)),
        (scene(|s| s.serving(old()).helper(true, helper())), (true, false)),
        (scene(|s| s.serving(new()).draining(5, old())), (true, false)),
        (scene(|s| s.serving(old()).withdrawn(5, new())), (true, false)),
        (scene(|s| s.draining(5, old())), (true, true)),
        (scene(|s| s), (true, false)),
    ];
    for (rollout, expected) in cases {
        let found = (rollout.is_in_progress(), rollout.blocks_replicas());
        assert_eq!(found, expected, "{rollout:#?}");
    }
}

#[test]
fn a_candidate_is_alone_if_nothing_else_could_serve() {
    let is_alone = |rollout: &Rollout| rollout.replaceable().is_some_and(|it| it.role == Role::Candidate);
    assert!(is_alone(&scene(|s| s.candidate(new()))));
    assert!(!is_alone(&scene(|s| s.serving(old()))));
    assert!(!is_alone(&scene(|s| s.candidate(new()).serving(old()))));
    assert!(!is_alone(&scene(|s| s.candidate(new()).draining(5, old()))));
}

#[test]
fn a_delegate_is_represented_by_the_container_that_serves_or_would() {
    let represents = |rollout: &Rollout| rollout.representative().map(|member| member.id.to_string());
    let all = scene(|s| s.serving(new().id("serving")).candidate(new()).draining(5, old()));
    assert_eq!(represents(&all).as_deref(), Some("serving"));
    let free = scene(|s| s.candidate(new()).draining(5, old()));
    assert_eq!(represents(&free).as_deref(), Some("old"));
    let alone = scene(|s| s.candidate(new()));
    assert_eq!(represents(&alone).as_deref(), Some("new"));
    assert_eq!(represents(&scene(|s| s.failed(1, new()))), None);
    assert_eq!(
        all.member(&ContainerId::new("old")).unwrap().id.to_string(),
        "old"
    );
    assert_eq!(all.member(&ContainerId::new("another")), None);
}

#[test]
fn health_counts_from_the_first_of_unbroken_healthy_observations() {
    let mut history = History::default();
    record(&mut history, at(0), HealthStatus::Starting);
    record(&mut history, at(5), HealthStatus::Healthy);
    record(&mut history, at(10), HealthStatus::Healthy);
    assert_eq!(history.healthy_since, Some(at(5)));
    assert_eq!(history.healthy_for(at(12)), Some(Duration::from_secs(5)));
    record(&mut history, at(15), HealthStatus::Unhealthy);
    assert_eq!(
        (history.healthy_since, history.unhealthy_since),
        (None, Some(at(15)))
    );
}

#[test]
fn a_restart_between_healthy_observations_resets_the_count() {
    let healthy = health(HealthStatus::Healthy);
    for (started, restarts) in [(4, 1), (4, 0)] {
        let mut history = History::default();
        record(&mut history, at(0), HealthStatus::Healthy);
        history.note_life(Some(at(started)), restarts);
        history.record(at(5), &healthy, Check::Done);
        assert_eq!(history.healthy_since, Some(at(5)));
        // The engine counts only the restarts by its policy.
        let by_hand = restarts == 0;
        assert_eq!(history.seen_since, Some(at(if by_hand { 5 } else { 0 })));
    }
}

/// A backup stops the upgrader's process, or the host has no processor time for it.
#[test]
fn unobserved_time_counts_against_no_container() {
    let mut history = History::default();
    let unhealthy = health(HealthStatus::Unhealthy);
    for (moment, check) in [(0, Check::Done), (5, Check::Awaited), (105, Check::Done)] {
        history.note_life(Some(at(0)), 0);
        history.record(at(moment), &unhealthy, check);
    }
    // Of the hundred seconds, six count against a candidate, and twelve against a container in service.
    assert_eq!(history.seen_since, Some(at(94)));
    let ill = history.unhealthy_for(at(110)).unwrap();
    assert_eq!((history.unhealthy_since, ill.num_seconds()), (Some(at(0)), 22));
    // The next illness starts without any deduction.
    record(&mut history, at(110), HealthStatus::Healthy);
    record(&mut history, at(115), HealthStatus::Unhealthy);
    assert_eq!(history.unhealthy_for(at(120)).unwrap().num_seconds(), 5);
}

#[test]
fn ignores_unobserved_time_and_backward_clock_jumps() {
    let mut history = History::default();
    for (moment, since) in [(0, 0), (120, 0), (241, 241), (100, 100)] {
        record(&mut history, at(moment), HealthStatus::Healthy);
        assert_eq!(history.healthy_since, Some(at(since)), "at {moment}");
    }
}

/// An observation that took a minute proves none of that minute: a crashing container has had several lives meanwhile.
#[test]
fn duration_of_an_observation_proves_nothing() {
    let mut history = History::default();
    // The life started in the middle of the first observation.
    let record = |history: &mut History, seen: Seen, status| {
        history.note_life(Some(at(58)), 0);
        history.record(seen, &health(status), Check::Done);
    };
    let seen = |until, from| Seen {
        until: at(until),
        from: at(from),
    };
    record(&mut history, seen(0, 60), HealthStatus::Healthy);
    assert_eq!(
        (history.seen_since, history.healthy_since),
        (Some(at(60)), Some(at(60)))
    );
    assert_eq!(history.healthy_for(at(62)), Some(Duration::ZERO));
    record(&mut history, seen(62, 90), HealthStatus::Healthy);
    assert_eq!(history.healthy_for(at(95)), Some(Duration::from_secs(2)));
    record(&mut history, seen(95, 99), HealthStatus::Unhealthy);
    assert_eq!(history.unhealthy_since, Some(at(99)));
}

#[test]
fn health_verdict_expires_with_age_and_life() {
    let mut history = History::default();
    let is_recent = |history: &History, now| {
        let age = Duration::from_secs(60);
        history.recent_health(at(now), age).is_some()
    };
    assert!(!is_recent(&history, 0));
    record(&mut history, at(0), HealthStatus::Healthy);
    assert!(is_recent(&history, 59));
    assert!(!is_recent(&history, 60));
    assert_eq!(history.verdict(), Some(&health(HealthStatus::Healthy)));
    // Reusing a remembered result does not renew it.
    history.record(at(59), &health(HealthStatus::Healthy), Check::Recent);
    assert!(!is_recent(&history, 60));
    // A new life began and has not answered yet: the result of the previous life does not count.
    history.note_life(Some(at(50)), 0);
    assert!(!is_recent(&history, 59));
    history.record(at(59), &health(HealthStatus::Starting), Check::Awaited);
    assert!(!is_recent(&history, 59));
    assert_eq!(history.verdict(), None);
    assert_eq!(history.last_health, Some(health(HealthStatus::Healthy)));
}

#[test]
fn recorded_times_follow_a_clock_change() {
    let mut memory = Memory::default();
    let id = ContainerId::new("old");
    let history = memory.history(&id);
    record(history, at(0), HealthStatus::Healthy);
    history.stop_requested_at = Some(at(0));
    memory.shift(chrono::TimeDelta::seconds(3600));
    let history = memory.history(&id);
    let moments = [
        history.seen_since,
        history.healthy_since,
        history.stop_requested_at,
    ];
    assert_eq!(moments, [Some(at(3600)); 3]);
    assert_eq!(history.healthy_for(at(3601)), Some(Duration::ZERO));
    let age = Duration::from_secs(2);
    assert!(history.recent_health(at(3601), age).is_some());
}

#[test]
fn containers_that_are_gone_are_forgotten() {
    let mut memory = Memory::default();
    let (kept, gone) = (ContainerId::new("kept"), ContainerId::new("gone"));
    assert_eq!(*memory.history(&kept), History::default());
    memory.history(&kept).starts.count = 1;
    memory.history(&gone).starts.count = 2;
    memory.keep(|id| *id == kept);
    assert_eq!(memory.history(&kept).starts.count, 1);
    assert_eq!(*memory.history(&gone), History::default());
}

#[test]
#[rustfmt::skip]
fn a_reason_with_several_possible_causes_names_the_cause() {
    let image = "harness/delegate:26.02.1".to_owned();
    let path = "/etc/ca.pem".to_owned();
    let problem = "no such file".to_owned();
    let (error, retry) = (ManagerError::NoToken("it is empty".to_owned()), Retry::Never);
    let rejection = FailureCause::StartRefused { problem }.into();
    let cases = [
        (Reason::Obstacle(Obstacle::CopiedFile { path }), Some("copied_file")),
        (Reason::CannotStartFirst(SingleInstance::HostNetwork), Some("host_network")),
        (Reason::TargetUnknown { error, retry }, Some("no_token")),
        (Reason::Rejected { image, rejection }, Some("start_refused")),
        (Reason::NoContainer, None),
    ];
    for (reason, expected) in cases {
        assert_eq!(reason.cause(), expected, "{reason}");
        let failure = reason.failure();
        let is_quoted = expected == Some("start_refused");
        assert_eq!(
            failure == "Docker could not start it: no such file",
            is_quoted,
            "{failure}"
        );
        assert_eq!(failure == reason.to_string(), !is_quoted, "{failure}");
    }
}

/// The reasons with which the delegate runs its target.
#[test]
fn each_kind_of_reason_is_classified() {
    let kinds = kinds().filter(|kind| kind.runs_the_target());
    let words: Vec<&str> = kinds.map(ReasonKind::as_str).collect();
    assert_eq!(words, ["up_to_date", "same_image", "reconfigured", "rolled_back"]);
}

#[test]
fn reasons_spell_out_counts_and_show_whole_seconds() {
    let quarantined = |attempt| Reason::Quarantined {
        delegate: "d1".to_owned(),
        image: "x:1".to_owned(),
        attempt,
        until: at(0),
    };
    for (attempt, expected) in [(1, "once"), (2, "twice"), (3, "3 times")] {
        let sentence = quarantined(attempt).to_string();
        assert!(
            sentence.starts_with(&format!("x:1 failed here {expected}; next attempt after 2023-")),
            "{sentence}"
        );
    }
    let proving = Reason::Proving {
        healthy_for: Duration::from_millis(59_999),
        needed: Duration::from_secs(60),
        verdict: "healthy".to_owned(),
    };
    assert_eq!(
        proving.to_string(),
        "the new container has been healthy for 59s of 1m (healthy)"
    );
}

#[test]
fn a_restarted_container_is_not_stopping() {
    let lives = |second_life: i64| {
        let mut history = History::default();
        record(&mut history, at(0), HealthStatus::Healthy);
        history.stop_requested_at = Some(at(5));
        history.note_life(Some(at(second_life)), 0);
        history.stop_requested_at
    };
    assert_eq!(lives(0), Some(at(5)));
    assert_eq!(lives(8), None);
}

#[test]
fn a_decision_names_its_topic() {
    let wait = Decision::Wait {
        reason: Reason::NoContainer,
        until: at(0),
    };
    assert_eq!((wait.kind(), wait.topic()), ("wait", Some("no_container")));
    let learn = Decision::Learn(Fact::FreeMemory);
    assert_eq!((learn.kind(), learn.topic()), ("learn", Some("free_memory")));
    let reference = "x:1".parse().unwrap();
    let act = Decision::Act(Step::Pull { reference });
    assert_eq!((act.kind(), act.topic()), ("pull", None));
    let waiting = Reason::AwaitingSchedule {
        published: Some("x:1".to_owned()),
    };
    assert_eq!(
        waiting.to_string(),
        "x:1 is published; waiting for the next scheduled run"
    );
}
