//! An example of every reason, as a delegate may have it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::document::{DependencyKind, Obstacle, SingleInstance};
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::rollout::reason::{Awaited, Reason, ReasonKind, Retry};
use delegate_upgrader::rollout::{FailureCause, InvalidLabel, Rejection, RestartDeferral};
use delegate_upgrader::schedule::wave::Wave;

pub(super) const OLD: &str = "harness/delegate:26.02.88404";
pub(super) const NEW: &str = "harness/delegate:26.03.88501";
const UNHEALTHY: &str = "unhealthy: http://172.17.0.2:3460/api/health answers 503";

fn at(time: &str) -> DateTime<Utc> {
    format!("2026-11-24T{time}Z").parse().unwrap()
}

pub(super) fn not_healthy_in_time() -> FailureCause {
    FailureCause::NotHealthyInTime {
        needed: Duration::from_secs(60),
        within: Duration::from_secs(600),
        health: UNHEALTHY.trim_start_matches("unhealthy: ").to_owned(),
    }
}

#[rustfmt::skip]
pub(crate) fn example(kind: ReasonKind) -> Reason {
    let image = NEW.to_owned();
    let problem = "no space left on device".to_owned();
    let verdict = UNHEALTHY.to_owned();
    let draining = "delegate-1.draining-1795377506".to_owned();
    let until = at("05:00:00");
    match kind {
        ReasonKind::UpToDate => Reason::UpToDate { image },
        ReasonKind::SameImage => Reason::SameImage { image },
        ReasonKind::Reconfigured => Reason::Reconfigured { settings: "env.DELEGATE_TOKEN,memory".to_owned() },
        ReasonKind::AwaitingSchedule => Reason::AwaitingSchedule { published: Some(image) },
        ReasonKind::HealthOnly => Reason::HealthOnly { published: Ok(Some(image)) },
        ReasonKind::OptedOut => Reason::OptedOut { label: delegate_upgrader::container::label::ENABLE },
        ReasonKind::NotRunning => Reason::NotRunning { state: "exited".to_owned() },
        ReasonKind::NotADelegate => Reason::NotADelegate { image: Some("nginx:1.29".to_owned()) },
        ReasonKind::CustomImage => Reason::CustomImage { image: "registry.example/team/our-delegate:26.02.88404".to_owned() },
        ReasonKind::OtherGeneration => Reason::OtherGeneration { image: "harness/delegate:3.0.0".to_owned() },
        ReasonKind::RecreatedByAnother => Reason::RecreatedByAnother { delegate: "delegate-1".to_owned(), image: "harness/delegate:26.02.88404".to_owned() },
        ReasonKind::OtherAccount => Reason::OtherAccount { account: "kmpySmUISimoRrJL6NL73w".to_owned() },
        ReasonKind::HeldBack => Reason::HeldBack { image, max: "26.02".parse().unwrap() },
        ReasonKind::NotPinned => Reason::NotPinned { image },
        ReasonKind::Pinned => Reason::Pinned { image, pin: "26.02".parse().unwrap() },
        ReasonKind::Snoozed => Reason::Snoozed { image, until },
        ReasonKind::OutsideWindow => Reason::OutsideWindow { image, window: "Mon-Fri 02:00-05:00".to_owned(), until: at("02:00:00") },
        ReasonKind::Paused => Reason::Paused { image, delegate: None, until: Some(until) },
        ReasonKind::Delayed => Reason::Delayed { image, first_seen: at("02:00:00"), until },
        ReasonKind::AwaitingWave => Reason::AwaitingWave { image, wave: Wave::Auto, until },
        ReasonKind::Soaking => Reason::Soaking { image, name: "delegate-2".to_owned(), until: Some(until), verdict: String::new() },
        ReasonKind::AlertFiring => Reason::AlertFiring { image, alerts: "DelegateUnhealthy, ImageRejected".to_owned() },
        ReasonKind::AlertsUnknown => Reason::AlertsUnknown { image, problem: "no answer within 4s".to_owned(), until: None },
        ReasonKind::FirstSeenUnknown => Reason::FirstSeenUnknown { image, problem: "the engine refused (403): forbidden".to_owned() },
        ReasonKind::InvalidLabel => Reason::InvalidLabel {
            image,
            label: InvalidLabel {
                label: delegate_upgrader::container::label::PIN,
                value: "newest".to_owned(),
                accepted: delegate_upgrader::image::PIN_ACCEPTED,
            },
        },
        ReasonKind::ImageNotComparable => Reason::ImageNotComparable { image: "sha256:9be2…".to_owned(), problem: "it is an image id, not a reference".to_owned() },
        ReasonKind::TargetUnknown => Reason::TargetUnknown { error: ManagerError::TokenRevoked, retry: Retry::Never },
        ReasonKind::AwaitingAnswer => Reason::AwaitingAnswer { from: Awaited::Manager, waited: Duration::from_secs(8), last_error: None },
        ReasonKind::AwaitingDrains => Reason::AwaitingDrains { image, drains: 2 },
        ReasonKind::DigestUnknown => Reason::DigestUnknown {
            image: "harness/delegate:latest".to_owned(),
            problem: "the engine did not answer within 30s".to_owned(),
            retry: Retry::Never,
        },
        ReasonKind::Pulling => Reason::Pulling { image },
        ReasonKind::PullFailed => Reason::PullFailed { image, problem, retry: Retry::Never },
        ReasonKind::TooLittleDisk => Reason::TooLittleDisk { image, needed: 1_400 << 20, available: 900 << 20 },
        ReasonKind::WrongPlatform => Reason::WrongPlatform { image, offered: "linux/arm64".to_owned(), needed: "linux/amd64".to_owned() },
        ReasonKind::Quarantined => Reason::Quarantined { delegate: "delegate-1".to_owned(), image, attempt: 2, until },
        ReasonKind::Obstacle => Reason::Obstacle(Obstacle::HasDependent { container: "vpn".to_owned(), kind: DependencyKind::Network }),
        ReasonKind::CannotStartFirst => Reason::CannotStartFirst(SingleInstance::HostNetwork),
        ReasonKind::NameTaken => Reason::NameTaken { name: "delegate-1.candidate".to_owned() },
        ReasonKind::StartRefused => Reason::StartRefused { problem },
        ReasonKind::CreateRefused => Reason::CreateRefused { problem },
        ReasonKind::ConfigurationMismatch => Reason::ConfigurationMismatch { differences: "/HostConfig/Memory: 2147483648 expected, 0 found".to_owned() },
        ReasonKind::SettingsChanged => Reason::SettingsChanged { what: "/HostConfig/Memory was 2147483648, and is 0".to_owned(), again: None },
        ReasonKind::Rejected => Reason::Rejected {
            image,
            rejection: Rejection {
                cause: not_healthy_in_time(),
                circumstances: vec!["2 of 3 delegates on this host were unhealthy".to_owned()],
            },
        },
        ReasonKind::CandidateVanished => Reason::CandidateVanished { image },
        ReasonKind::Interrupted => Reason::Interrupted { name: "delegate-1".to_owned() },
        ReasonKind::Returning => Reason::Returning { name: draining, at: Some(until) },
        ReasonKind::ReplacedByCompose => Reason::ReplacedByCompose,
        ReasonKind::RolledBack => Reason::RolledBack { delegate: "delegate-1".to_owned(), image, to: OLD.to_owned() },
        ReasonKind::StandingBy => Reason::StandingBy { name: "delegate-upgrader".to_owned() },
        ReasonKind::WaitingForOthers => Reason::WaitingForOthers { count: 10 },
        ReasonKind::WaitingForReplica => Reason::WaitingForReplica { name: "delegate-1".to_owned() },
        ReasonKind::Halted => Reason::Halted { name: "delegate-1".to_owned(), because: not_healthy_in_time().to_string() },
        ReasonKind::Proving => Reason::Proving {
            healthy_for: Duration::from_secs(41),
            needed: Duration::from_secs(60),
            verdict: "healthy: http://172.17.0.4:3460/api/health answers 200".to_owned(),
        },
        ReasonKind::WaitingForIdle => Reason::WaitingForIdle { tasks: 3, until },
        ReasonKind::Draining => Reason::Draining { name: draining, tasks: Some(3), until },
        ReasonKind::Stopping => Reason::Stopping { name: "delegate-1.failed-1".to_owned() },
        ReasonKind::TaskOfService => Reason::TaskOfService { service: "docker-delegate".to_owned() },
        ReasonKind::SwarmOff => Reason::SwarmOff,
        ReasonKind::NotUpgradable => Reason::NotUpgradable { kind: "a Swarm job, which starts again with each update" },
        ReasonKind::RollingOut => Reason::RollingOut { orchestrator: "Swarm", image, running: 1, wanted: 2 },
        ReasonKind::RollingBack => Reason::RollingBack { orchestrator: "Swarm", image, to: OLD.to_owned() },
        ReasonKind::NotVerified => Reason::NotVerified { image },
        ReasonKind::UpdatedElsewhere => Reason::UpdatedElsewhere { orchestrator: "Swarm" },
        ReasonKind::NoDeployment => Reason::NoDeployment { name: "delegate".to_owned(), namespace: "harness-delegate-ng".to_owned() },
        ReasonKind::NotPermitted => Reason::NotPermitted { step: format!("updating it to {image}"), problem: "User \"upgrader\" cannot patch resource \"deployments\"".to_owned() },
        ReasonKind::NoSuchContainer => Reason::NoSuchContainer {
            deployment: "kubernetes-delegate".to_owned(),
            container: "delegat".to_owned(),
            found: "delegate, fluent-bit".to_owned(),
        },
        ReasonKind::DryRun => Reason::DryRun { step: format!("updating it to {image}") },
        ReasonKind::UpdatePaused => Reason::UpdatePaused { orchestrator: "Swarm", message: "update paused due to failure or early termination of task x3f2".to_owned() },
        ReasonKind::NobodyServes => Reason::NobodyServes { name: draining, tasks: Some(2), since: at("02:00:00"), until },
        ReasonKind::SuccessorUnhealthy => Reason::SuccessorUnhealthy { verdict },
        ReasonKind::NoContainer => Reason::NoContainer,
        ReasonKind::RestartBackoff => Reason::RestartBackoff { failures: 3, verdict, attempt: 2, until },
        ReasonKind::RestartDeferred => Reason::RestartDeferred { failures: 3, verdict, because: RestartDeferral::MostUnhealthy { unhealthy: 2, all: 3 } },
        ReasonKind::Restarting => Reason::Restarting { name: "delegate-1".to_owned(), tasks: Some(3), until },
        ReasonKind::EngineError => Reason::EngineError {
            step: "creating the candidate with harness/delegate:26.03.88501".to_owned(),
            problem: "the engine did not answer within 1m".to_owned(),
        },
    }
}
