//! `docs/reference/reasons.md`: every reason with an example, its meaning, advice, and a place to read more. The program
//! contains the page for `explain`, so each word costs.

use std::fmt::Write as _;

use delegate_upgrader::rollout::reason::ReasonKind as Kind;
use kit::page;

use super::examples::example;
use super::kinds;

const PAGE: &str = "docs/reference/reasons.md";

/// The meaning of a reason, the advice, and a place to read more, if that helps.
pub(super) struct Words(&'static str, &'static str, &'static str);

const NOTHING: &str = "nothing.";
const WAIT: &str = "wait.";
const WAIT_OR_RETRY: &str = "wait, or run `delegate-upgrader retry NAME`.";
const RESTARTS: &str = "[Restarts](../usage/health.md#restarts-of-unhealthy-delegates)";
const STOP_FIRST: &str = "[Stop-first](../usage/replacement.md#stop-first)";
const WHICH: &str = "[Which containers](../usage/configuration.md#which-containers-are-delegates)";
const TARGET: &str = "[The target image](../usage/configuration.md#the-target-image)";
const SCHEDULES: &str = "[Schedules](../usage/schedules.md#schedules)";
const WINDOWS: &str = "[Windows](../usage/schedules.md#upgrade-windows)";
const WAVES: &str = "[Delay and waves](../usage/schedules.md#delay-and-waves)";
const REPLICAS: &str = "[Replicas](../usage/schedules.md#replicas)";
const ALERTS: &str = "[Hold on alerts](../usage/fleet.md#hold-on-alerts)";
const PAUSE: &str = "[pause and resume](../usage/changing.md#pause-and-resume)";
const LABELS: &str = "[Labels](labels.md)";
const FAILS: &str = "[When it fails](../usage/failures.md#when-it-fails)";
const OBSTACLES: &str = "[All obstacles](../usage/limits.md#delegates-that-are-not-upgraded)";
const PEOPLE: &str = "[People on the host](../usage/failures.md#when-people-work-on-the-host)";
const BY_HAND: &str = "[Work by hand](../usage/troubleshooting.md#without-the-upgrader)";
const COMPOSE: &str = "[Compose](../usage/compose.md#what-compose-does-during-a-replacement)";
const TOOLS: &str = "[Other tools](../usage/other-tools.md)";
const REGISTRIES: &str = "[Private registries](../usage/private-registries.md)";
const PERMISSIONS: &str = "[Permissions](../usage/permissions.md)";
const KUBERNETES: &str = "[Settings](../usage/kubernetes.md#settings)";
const SWARM: &str = "[Docker Swarm](../usage/swarm.md)";
const SWARM_FAILS: &str = "[When it fails](../usage/swarm.md#when-it-fails)";
const OTHERS: &str = "[Updates by others](../usage/swarm.md#when-someone-else-works-on-it)";
const SELF: &str = "[The upgrader itself](../usage/self-upgrade.md)";
const MANAGER: &str = "[What to check](../usage/troubleshooting.md#the-manager-does-not-answer)";
const ENGINE: &str = "[The engine](../usage/troubleshooting.md#the-engine-cannot-be-reached)";
const DRAINS: &str = "[Drains](../usage/troubleshooting.md#the-old-delegate-does-not-go-away)";

#[rustfmt::skip]
pub(super) fn words(kind: Kind) -> Words {
    match kind {
        Kind::UpToDate => Words("It runs the published image.", "nothing; if it is unhealthy, `status` shows the next step.", ""),
        Kind::SameImage => Words("The published reference is new, and refers to the image that runs.", NOTHING, ""),
        Kind::Reconfigured => Words("`reconfigure` gave it these settings.", NOTHING, ""),
        Kind::AwaitingSchedule => Words("Upgrades start in scheduled runs only.", WAIT_OR_RETRY, SCHEDULES),
        Kind::AwaitingAnswer => Words("The Manager, the registry of a mutable tag, or Prometheus has not answered.", "if it lasts, read the last error in the line.", MANAGER),
        Kind::AwaitingDrains => Words("Two old or rejected containers finish their tasks.", WAIT, ""),
        Kind::WaitingForIdle => Words("Stop-first: it works on tasks, and is replaced at `deadline` at the latest.", "wait; `UPGRADE_IDLE_WAIT` limits the time.", STOP_FIRST),
        Kind::HealthOnly => Words("`DISABLE_AUTO_UPGRADE` is true.", "to upgrade it, unset that.", ""),
        Kind::OptedOut => Words("Its owner opted it out; the line names the label.", NOTHING, LABELS),
        Kind::NotRunning => Words("It is stopped, paused or was never started.", "start it, if it should be upgraded.", ""),
        Kind::NotADelegate => Words("It has a managed `DELEGATE_NAME`, but not the image of a delegate, and has never answered as one; or it is a command of `docker compose run`.", "nothing; if it is a delegate, give it that label.", WHICH),
        Kind::CustomImage => Words("Its image is not `harness/delegate`.", "set `IMAGE_REPOSITORY` to the repository of your build.", TARGET),
        Kind::OtherGeneration => Words("Harness Delegate 3.x is another product.", NOTHING, ""),
        Kind::RecreatedByAnother => Words("Twice, another tool recreated it from the previous image right after an upgrade.", "change the image in that tool.", TOOLS),
        Kind::OtherAccount => Words("The upgrader of that account upgrades it.", NOTHING, ""),
        Kind::HeldBack => Words("The published image is newer than `MAX_VERSION`.", "nothing, or change `MAX_VERSION`.", ""),
        Kind::OutsideWindow => Words("The window for upgrades is closed; `until` says when it opens.", WAIT_OR_RETRY, WINDOWS),
        Kind::Pinned => Words("Its owner's label permits another version only.", "to release it, recreate it without the label.", LABELS),
        Kind::Snoozed => Words("Its owner's label delays upgrades until `until`.", WAIT_OR_RETRY, LABELS),
        Kind::Paused => Words("Someone paused upgrades on this host or of this delegate. `until` says when that ends, if it does.", "run `resume`, as the line says.", PAUSE),
        Kind::Delayed => Words("This host has known the image for less than `UPGRADE_DELAY`, until `until`.", WAIT_OR_RETRY, WAVES),
        Kind::AwaitingWave => Words("Other hosts come first; `until` says when this host's turn is.", WAIT_OR_RETRY, WAVES),
        Kind::Soaking => Words("A replica has run the image for less than `UPGRADE_SOAK`, or is unhealthy.", WAIT_OR_RETRY, REPLICAS),
        Kind::AlertFiring => Words("An alert of `HOLD_ON_ALERTS` fires.", "see to the alert, or run `delegate-upgrader retry NAME`.", ALERTS),
        Kind::AlertsUnknown => Words("Prometheus does not say which alerts fire.", "check `PROMETHEUS_URL` and what the line says.", ALERTS),
        Kind::RolledBack => Words("An operator rolled back from the published image.", "to upgrade it again, run `delegate-upgrader retry NAME`.", ""),
        Kind::StandingBy => Words("Another instance of this upgrader acts.", WAIT, SELF),
        Kind::WaitingForOthers => Words("Ten at once, or as many as have memory.", WAIT, ""),
        Kind::WaitingForReplica => Words("Replicas are replaced one at a time.", WAIT, ""),
        Kind::Pulling => Words("The image is being pulled.", "wait; `status` shows the progress.", ""),
        Kind::Proving => Words("The new container must be healthy for `UPGRADE_HEALTHY_TIME`.", WAIT, ""),
        Kind::Interrupted => Words("The delegate stopped during its replacement. After 15 seconds the new container is withdrawn.", "nothing, or start the delegate.", PEOPLE),
        Kind::Returning => Words("The old container has ended, and soon serves again.", "nothing; to prevent it, remove the container.", PEOPLE),
        Kind::ReplacedByCompose => Words("Compose gives a container such a name while it replaces that container.", "wait. If Compose is gone, rename the container to its own name.", COMPOSE),
        Kind::Draining => Words("The old container is finishing its tasks.", "wait; the line has the deadline.", DRAINS),
        Kind::Stopping => Words("A container that was asked to stop must end first.", WAIT, ""),
        Kind::TaskOfService => Words("Its Swarm service is the delegate.", "look at the service, in `status` on a manager.", SWARM),
        Kind::SwarmOff => Words("`SWARM` is false.", "nothing, or set it to true.", SWARM),
        Kind::NotUpgradable => Words("An update would harm it: a job, for instance, would run again.", NOTHING, SWARM),
        Kind::RollingOut => Words("The orchestrator replaces its tasks.", WAIT, ""),
        Kind::NotVerified => Words("It has the published image and is scaled to 0, so nothing has proven it.", "check it when you scale it up.", ""),
        Kind::UpdatedElsewhere => Words("Someone else is updating it. The upgrader does not interfere.", WAIT, OTHERS),
        Kind::TargetUnknown => Words("The Manager did not say which image is published.", "check what the line says: address, token, account, clock or proxy.", MANAGER),
        Kind::ImageNotComparable => Words("Its image is an id, the target is invalid, or a tag has no version to compare with `MAX_VERSION`.", "recreate it from a reference with a repository and a tag.", TARGET),
        Kind::NotPinned => Words("`REQUIRE_DIGEST` is true, and the target has no digest of its own.", "publish the image with its digest.", ""),
        Kind::InvalidLabel => Words("Its owner's `pin`, `snooze-until` or `window` cannot be read, so it is left alone.", "recreate it with a valid label; the line says what is accepted.", LABELS),
        Kind::FirstSeenUnknown => Words("The engine does not say when this host first saw the image.", "permit the calls of `/volumes` in the socket proxy.", PERMISSIONS),
        Kind::DigestUnknown => Words("The registry did not say which image a mutable tag refers to.", "check the registry and its login.", REGISTRIES),
        Kind::PullFailed => Words("The image could not be pulled, or no data arrived for two minutes.", "run `delegate-upgrader doctor`; check the disk, the mirror, the login and the network.", REGISTRIES),
        Kind::TooLittleDisk => Words("The image may not fit on the engine's disk.", "make room there: `docker image prune`.", ""),
        Kind::WrongPlatform => Words("The image is for another platform.", "publish an image for the platform of this host.", ""),
        Kind::Quarantined => Words("The image was rejected here, and is tried again later.", "read its evidence in `status`; then publish another image, or run `delegate-upgrader retry NAME`.", FAILS),
        Kind::Obstacle => Words("It cannot be recreated as it is; `cause` is the kind.", "let its manager upgrade it, or recreate it without the obstacle.", OBSTACLES),
        Kind::CannotStartFirst => Words("Start-first is required, but two instances cannot run at once.", "use `auto` or `stop-first`, or remove the conflict.", STOP_FIRST),
        Kind::NameTaken => Words("Another container has the name of a candidate, a retired container or a helper.", "rename that container.", ""),
        Kind::StartRefused => Words("Stop-first: the engine refused to start a container like the new one, so nothing was stopped.", "mend what the engine's words name.", ""),
        Kind::CreateRefused => Words("Engine or cluster refused the new container.", "read the engine's words in the line.", ""),
        Kind::ConfigurationMismatch => Words("The candidate's settings would differ. The line names the differences, without secrets.", "report it, please.", ""),
        Kind::SettingsChanged => Words("Someone changed the delegate during its replacement; the line names the setting.", "nothing; the next scheduled run tries again. After two in a row: `delegate-upgrader retry NAME`.", PEOPLE),
        Kind::Rejected => Words("The candidate failed. In parentheses: what else was wrong then.", "read its log in `status`, or `docker logs NAME.failed-1`.", FAILS),
        Kind::CandidateVanished => Words("Someone else, or Compose, stopped or removed the candidate.", "nothing; the next scheduled run tries again.", PEOPLE),
        Kind::Halted => Words("Another replica failed.", "see the reason of that replica.", ""),
        Kind::RestartBackoff => Words("The delegate failed its health checks shortly after its last start.", WAIT, RESTARTS),
        Kind::RestartDeferred => Words("The delegate failed its health checks and is not restarted; `cause` says why.", "repair what the line names.", RESTARTS),
        Kind::Restarting => Words("The delegate failed its health checks, and finishes its tasks before its restart.", WAIT, RESTARTS),
        Kind::RollingBack => Words("Its tasks failed with the new image, and the orchestrator restores the previous image.", WAIT, SWARM_FAILS),
        Kind::NoDeployment => Words("`workloadName` and `namespace` name no Deployment.", "correct them in `config.yaml`: `kubectl get deployments --all-namespaces` lists them.", KUBERNETES),
        Kind::NoSuchContainer => Words("`containerName` names no container of the Deployment.", "correct it in `config.yaml`.", KUBERNETES),
        Kind::NotPermitted => Words("The API server, or a proxy before an engine, refuses a call.", "grant the permission that the line names; `kubernetes doctor` names each that is missing.", "[Kubernetes: permissions](../usage/kubernetes.md#permissions)"),
        Kind::DryRun => Words("`dryRun` is true in `config.yaml`.", "set `dryRun` to false to let runs write.", ""),
        Kind::UpdatePaused => Words("An update by someone else, or a rollback, stopped in the middle.", "`docker service ps NAME` says why; then update it or roll it back.", OTHERS),
        Kind::NobodyServes => Words("The successor is gone, two cannot run at once, and the old container finishes its tasks.", "wait, or end its tasks; the line has the deadline.", DRAINS),
        Kind::SuccessorUnhealthy => Words("The old container is kept until the new one is healthy.", "read the log of the new one.", FAILS),
        Kind::NoContainer => Words("No container has the name, and none is left to restore.", "recreate the delegate, or remove what is left of it.", BY_HAND),
        Kind::EngineError => Words("A call to the engine failed, or had no effect. It is tried again.", "if it lasts, read the engine's words in the line.", ENGINE),
    }
}

/// The text wrapped into lines of at most 125 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.trim().is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= 125 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn sections(is_failure: bool) -> String {
    let mut text = String::new();
    for kind in kinds().filter(|kind| kind.is_failure() == is_failure) {
        let Words(meaning, action, place) = words(kind);
        let sentence = example(kind).to_string();
        assert_eq!(example(kind).kind(), kind);
        let word = kind.as_str();
        let meaning = wrapped(meaning);
        let place = if place.is_empty() {
            String::new()
        } else {
            format!(" See {place}.")
        };
        let action = wrapped(&format!("**Do:** {action}{place}"));
        let _ = write!(
            text,
            "\n### `{word}`\n\n    {sentence}\n\n{meaning}\n\n{action}\n"
        );
    }
    text + "\n"
}

#[test]
fn the_page_has_every_reason() {
    page::has(PAGE, "normal", &sections(false));
    page::has(PAGE, "failures", &sections(true));
}

#[test]
fn each_reason_says_what_it_means_and_what_to_do() {
    for kind in kinds() {
        let Words(meaning, action, place) = words(kind);
        assert!(meaning.ends_with('.') && action.ends_with('.'), "{kind}");
        assert!(place.is_empty() || place.contains("]("), "{kind}: {place}");
    }
}
