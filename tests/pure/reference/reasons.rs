//! `docs/reference/reasons.md`: every reason with an example, what it means, what to do, and where to look.

use std::fmt::Write as _;

use delegate_upgrader::rollout::reason::ReasonKind as Kind;
use kit::page;

use super::examples::example;
use super::kinds;

const PAGE: &str = "docs/reference/reasons.md";

/// What a reason means, what to do about it, and where more is said.
pub(super) struct Words(&'static str, &'static str, &'static str);

const NOTHING: &str = "nothing.";
const UPGRADE: &str = "[What happens to a delegate](../usage/replacement.md)";
const REPLICAS: &str = "[Replicas](../usage/replacement.md#replicas)";
const RESTARTS: &str =
    "[Restarts of unhealthy delegates](../usage/replacement.md#restarts-of-unhealthy-delegates)";
const STOP_FIRST: &str = "[Stop-first](../usage/replacement.md#stop-first)";
const START_FIRST: &str = "[Start-first](../usage/replacement.md#start-first)";
const TARGET: &str = "[The target image](../usage/configuration.md#the-target-image)";
const WAVES: &str = "[Delay and waves](../usage/configuration.md#delay-and-waves)";
const LABELS: &str = "[Labels](labels.md)";
const FAILS: &str = "[When it fails](../usage/replacement.md#when-it-fails)";
const PEOPLE: &str = "[When people work on the host](../usage/replacement.md#when-people-work-on-the-host)";
const REGISTRIES: &str = "[Private registries](../usage/private-registries.md); `delegate-upgrader doctor`";
const KUBERNETES: &str = "[Kubernetes](../usage/kubernetes.md)";
const SWARM: &str = "[Docker Swarm](../usage/swarm.md)";
const BY_HAND: &str = "[By hand](../usage/replacement.md#by-hand)";

#[rustfmt::skip]
pub(super) fn words(kind: Kind) -> Words {
    match kind {
        Kind::UpToDate => Words("It runs the published image.", NOTHING, UPGRADE),
        Kind::SameImage => Words("Another reference is published, but it refers to the image that runs.", NOTHING, UPGRADE),
        Kind::AwaitingSchedule => Words("Changes are made in scheduled runs only.", "wait, run `delegate-upgrader once`, or set `RUN_ON_START=true`.", "[Schedules](../usage/configuration.md#schedules)"),
        Kind::AwaitingAnswer => Words("The Manager, or the registry of a mutable tag, has not answered yet. Work in progress continues.", "nothing; if it lasts, see the last error in the line.", "[The Manager does not answer](../usage/troubleshooting.md#the-manager-does-not-answer); [the causes](#causes)"),
        Kind::AwaitingDrains => Words("Two containers of it, old ones or candidates that were given up, are still finishing their tasks.", "wait; each has up to its stop timeout.", REPLICAS),
        Kind::WaitingForIdle => Words("Stop-first: it works on a task, and no delegate would work until that is finished. `tasks` says on how many, `deadline` when it is replaced at the latest.", "nothing; `UPGRADE_IDLE_WAIT` is how long it waits.", STOP_FIRST),
        Kind::HealthOnly => Words("`DISABLE_AUTO_UPGRADE` is true.", "nothing; if the line says that the published image is unknown, it says why: as for [`target_unknown`](#target_unknown) and [`digest_unknown`](#digest_unknown).", "[Health](../usage/health.md)"),
        Kind::OptedOut => Words("Its owner set `io.delegate-upgrader.enable=false`, or Watchtower's label of that kind; the line names it.", NOTHING, LABELS),
        Kind::NotRunning => Words("It is stopped, paused or was never started.", "start it, if it should be upgraded.", UPGRADE),
        Kind::CustomImage => Words("Its image is not `harness/delegate`.", "set `IMAGE_REPOSITORY` to the repository of your build.", TARGET),
        Kind::OtherGeneration => Words("The published image is Harness Delegate 3.x, and the delegate has a version by year and month, or the other way round. They share a repository, but have variables and ports of their own.", "install the other product beside it; to change nothing, do nothing.", TARGET),
        Kind::RecreatedByAnother => Words("Twice in a row, within ten minutes of an upgrade, something else recreated the delegate from the image before: a unit or a loop around `docker run`, Ansible, Terraform.", "let one of the two own the delegate: change the image there, or stop recreating it; `delegate-upgrader retry NAME` upgrades it once more.", UPGRADE),
        Kind::OtherAccount => Words("Its `ACCOUNT_ID` is another one than the upgrader's, so the upgrader of that account upgrades it.", "nothing, or give the delegates of the two accounts different names.", UPGRADE),
        Kind::HeldBack => Words("The published image is newer than `MAX_VERSION`.", "nothing, or change `MAX_VERSION`.", "[Images and registries](../usage/configuration.md#images-and-registries)"),
        Kind::OutsideWindow => Words("Another image is published, and the window for upgrades is closed. `until` says when it opens.", "nothing; `delegate-upgrader retry NAME` does not wait.", "[Upgrade windows](../usage/configuration.md#upgrade-windows)"),
        Kind::Pinned => Words("Another version is published than its owner's label `pin` permits.", "nothing; to let it go, recreate it without the label.", LABELS),
        Kind::Snoozed => Words("Its owner's label `snooze-until` is not over. `until` says when it is.", "nothing; `delegate-upgrader retry NAME` does not wait.", LABELS),
        Kind::Paused => Words("Someone paused upgrades on this host. `until` says when that ends, where they said it.", "`delegate-upgrader resume`; `delegate-upgrader retry NAME` does not wait.", "[pause and resume](../usage/commands.md#pause-and-resume)"),
        Kind::Delayed => Words("This host has not known of the image for `UPGRADE_DELAY` yet. `until` says when it has.", "nothing; `delegate-upgrader retry NAME` does not wait.", WAVES),
        Kind::AwaitingWave => Words("Other hosts come first, by `UPGRADE_WAVE`. `until` says when this one begins.", "nothing; `delegate-upgrader retry NAME` does not wait.", WAVES),
        Kind::RolledBack => Words("An operator rolled back from the published image.", "nothing; another published image upgrades it, or `delegate-upgrader retry NAME`.", "[Rolling back](../usage/replacement.md#rolling-back)"),
        Kind::StandingBy => Words("Another instance of this upgrader acts: the one that it replaces, or is replaced by.", "wait; `status` of that one has the delegates' reasons.", "[The upgrader itself](../usage/self-upgrade.md)"),
        Kind::WaitingForOthers => Words("Ten delegates are being replaced, each with a new container that proves itself. More at once would be a burden for the host.", "wait.", REPLICAS),
        Kind::WaitingForReplica => Words("Another replica is being replaced.", "wait.", REPLICAS),
        Kind::Pulling => Words("The image is being pulled.", "wait; `status` shows how far it is.", "[Before anything happens](../usage/replacement.md#before-anything-happens)"),
        Kind::Proving => Words("The new container is proving itself.", "wait; the line has its health.", START_FIRST),
        Kind::Interrupted => Words("The delegate stopped while its replacement was in progress. After 15 seconds the new container is withdrawn, since its owner must have stopped the delegate.", "nothing, or start the delegate.", PEOPLE),
        Kind::Returning => Words("The old container has ended and is to serve again. It is left alone for some seconds, since someone may be about to remove it.", "nothing; to prevent it, remove the container.", PEOPLE),
        Kind::BetweenLives => Words("The container crashed, and Docker has not started it again yet. Docker cannot rename it before that.", "if it lasts, read the container's log: `docker logs NAME`.", FAILS),
        Kind::ReplacedByCompose => Words("Compose gives such a name to a container while it replaces that container.", "nothing; if Compose is gone and the name stays, rename the container to its own name.", PEOPLE),
        Kind::Draining => Words("The old container is finishing its tasks.", "wait; the line has the end of its time.", "[The old delegate does not go away](../usage/troubleshooting.md#the-old-delegate-does-not-go-away)"),
        Kind::Stopping => Words("A container that was asked to stop has to be gone first.", "wait.", START_FIRST),
        Kind::TaskOfService => Words("It is a container of a Swarm, and its service is the delegate.", "look at the service, in `status` on a manager.", SWARM),
        Kind::NotUpgradable => Words("It is a job of a Swarm, which each update would run again, or another thing that an update harms.", NOTHING, SWARM),
        Kind::RollingOut => Words("The orchestrator replaces its tasks.", "wait; the line has how many run.", SWARM),
        Kind::NotVerified => Words("It was given the published image while it is scaled to 0, so nothing has shown yet that the image works.", "look at it when you scale it up.", SWARM),
        Kind::UpdatedElsewhere => Words("An update of it by someone else is in progress, which is neither undone nor judged.", "wait.", "[When someone else works on it](../usage/swarm.md#when-someone-else-works-on-it)"),

        Kind::TargetUnknown => Words("The Manager did not say which image is published.", "check what the line says: the address, the token, the account, the clock, the proxy.", "[The Manager does not answer](../usage/troubleshooting.md#the-manager-does-not-answer); [the causes](#causes)"),
        Kind::ImageNotComparable => Words("Its image cannot be compared with the published one: an image id, say, a target that is not a valid reference, or a tag without a version beside `MAX_VERSION`.", "create it from a reference with a repository and a tag.", TARGET),
        Kind::NotPinned => Words("`REQUIRE_DIGEST` is true, and the target has no digest of its own.", "publish the image with its digest.", "[Images and registries](../usage/configuration.md#images-and-registries)"),
        Kind::InvalidLabel => Words("A label of its owner, `pin`, `snooze-until` or `window`, cannot be read, so what they want is not known.", "recreate the delegate with a right one; the line says what is accepted.", LABELS),
        Kind::FirstSeenUnknown => Words("The engine, or a proxy before it, does not say when this host first knew of the image, which `UPGRADE_DELAY` and `UPGRADE_WAVE` need.", "permit the calls of `/volumes` in the socket proxy.", "[Permissions](../usage/permissions.md)"),
        Kind::DigestUnknown => Words("The registry did not say which image a mutable tag refers to.", "check the registry and its login.", REGISTRIES),
        Kind::PullFailed => Words("The image could not be pulled, or no data arrived for two minutes.", "check that it is there, the mirror, the login, the network between engine and registry; `doctor` does most of that.", REGISTRIES),
        Kind::TooLittleDisk => Words("The image is not pulled, since it may not fit on the engine's disk.", "make room there: `docker image prune`.", "[Before anything happens](../usage/replacement.md#before-anything-happens)"),
        Kind::WrongPlatform => Words("The image is for another platform.", "publish one for this host's.", TARGET),
        Kind::Quarantined => Words("The image was rejected here; it is tried again later.", "read its evidence in `status`; publish another image, or try it again: `delegate-upgrader retry NAME`.", "[An image was rejected](../usage/troubleshooting.md#an-image-was-rejected)"),
        Kind::Obstacle => Words("It cannot be recreated as it is. The line says why, and `cause` is the kind.", "let its manager upgrade it, or recreate the delegate without the obstacle, as the line says.", "[What is carried over, and what is not](../usage/replacement.md#what-is-carried-over-and-what-is-not); [the causes](#causes)"),
        Kind::CannotStartFirst => Words("`start-first` is required, but two instances cannot run at once.", "use `auto` or `stop-first`, or remove the conflict.", "[Stop-first](../usage/replacement.md#stop-first); [the causes](#causes)"),
        Kind::NameTaken => Words("Another container has a name that the replacement needs: `NAME.candidate` or `NAME.retired`, and `NAME.helper` for the upgrader itself.", "rename that one.", "[Names](../usage/replacement.md#names-and-labels)"),
        Kind::CreateRefused => Words("The engine refused to create the candidate.", "read the engine's words in the line.", FAILS),
        Kind::ConfigurationMismatch => Words("The candidate's configuration would differ. The line names the differences, without secrets.", "report it, please: this program is at fault.", FAILS),
        Kind::SettingsChanged => Words("Its settings were changed while its replacement was being prepared, for example by `docker update` or `docker network connect`. The replacement was withdrawn, and the changed container serves.", "nothing; the next scheduled run makes a replacement with these settings.", PEOPLE),
        Kind::Rejected => Words("The candidate failed. In parentheses the line names what else was wrong at that time and may have mattered.", "read its last log lines in the log or in `status`; all of them: `docker logs NAME.failed-1`.", "[An image was rejected](../usage/troubleshooting.md#an-image-was-rejected); [the causes](#causes)"),
        Kind::CandidateVanished => Words("The candidate of this run is gone, and the upgrader did not remove it: someone else did, or Compose.", "nothing; the next scheduled run tries again.", PEOPLE),
        Kind::Halted => Words("Another replica failed.", "the same as for that replica.", REPLICAS),
        Kind::RestartBackoff => Words("The delegate failed its health checks, and its last start is not long enough ago for a restart.", "nothing; its message says when the restart follows.", RESTARTS),
        Kind::RestartHeldBack => Words("The delegate failed its health checks and is not restarted; `cause` says why.", "mend what the line names.", "[When it is not restarted](../usage/replacement.md#restarts-of-unhealthy-delegates); [the causes](#causes)"),
        Kind::Restarting => Words("The delegate failed its health checks, and finishes its tasks before it is started again.", "nothing; its deadline is shown.", RESTARTS),
        Kind::RollingBack => Words("Its tasks failed with the new image, and the orchestrator goes back to the one before.", "wait; the image is in quarantine then.", "[When it fails](../usage/swarm.md#when-it-fails)"),
        Kind::NoDeployment => Words("`workloadName` and `namespace` name no Deployment.", "correct the two keys of `config.yaml`: `kubectl get deployments --all-namespaces` lists them.", KUBERNETES),
        Kind::NoSuchContainer => Words("`containerName` names no container of the Deployment. A patch for it would add one, so nothing is patched.", "correct the key of `config.yaml`.", KUBERNETES),
        Kind::NotPermitted => Words("The API server, or a proxy before an engine, refuses a call. The line has its words, which name the missing permission.", "grant the permission; `kubernetes doctor` names each that is missing.", "[Kubernetes: permissions](../usage/kubernetes.md#permissions); [Permissions](../usage/permissions.md)"),
        Kind::DryRun => Words("`dryRun` is true in `config.yaml`. The line says what a run would do next.", "set it to false to have that done.", KUBERNETES),
        Kind::UpdatePaused => Words("An update that the upgrader did not begin, or a rollback, has stopped in the middle. The line has the orchestrator's words.", "find out why: `docker service ps NAME`; then `docker service update NAME` or `docker service rollback NAME`.", "[When someone else works on it](../usage/swarm.md#when-someone-else-works-on-it)"),
        Kind::RemovalStuck => Words("Docker has been removing a container for over ten minutes.", "restart Docker.", UPGRADE),
        Kind::SuccessorUnhealthy => Words("The old container is kept until the new one is healthy.", "read the new one's log.", FAILS),
        Kind::NoContainer => Words("No container has the name, and none is left to restore.", "recreate the delegate, or remove what is left of it.", BY_HAND),
        Kind::EngineError => Words("A call to the engine failed, or a container of the delegate cannot be inspected. It is retried after two seconds, later each time.", "if it stays: the line has the engine's words.", "[The engine cannot be reached](../usage/troubleshooting.md#the-engine-cannot-be-reached)"),
    }
}

/// The text in lines of at most 125 characters, all but the first behind this indent.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.trim().is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= 125 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
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
        let meaning = wrapped(meaning, "");
        let action = wrapped(&format!("- **What to do:** {action}"), "  ");
        let place = wrapped(&format!("- **Where to look:** {place}"), "  ");
        let _ = write!(
            text,
            "\n### `{word}`\n\n    {sentence}\n\n{meaning}\n\n{action}\n{place}\n"
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
fn each_reason_says_what_it_means_what_to_do_and_where_to_look() {
    for kind in kinds() {
        let Words(meaning, action, place) = words(kind);
        assert!(meaning.ends_with('.') && action.ends_with('.'), "{kind}");
        assert!(place.contains("]("), "{kind}: {place}");
    }
}
