//! The host at the end of a point, and whether it may be in that state: the same few invariants for every act.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::act::{Act, Given, Site, Target};
use super::stage::{Moment, Phase, Stage};
use crate::check::{configuration, differences, healthy, text};
use crate::events::Event;
use crate::proxy::Made;
use crate::scenario::Scenario;
use kit::lab::engine::Row;

/// The maximum time of Docker's own work after the upgrader's end.
const COMES_TO_REST: Duration = Duration::from_secs(60);
/// One candidate that the person's act makes useless, and another one.
const MOST_CANDIDATES: usize = 2;
/// The maximum number of requests for any other change in one run.
const MOST_CHANGES: usize = 5;
/// The number of calls in a period that is too many. An upgrade inspects up to five containers four times a second.
const MOST_CALLS: (usize, Duration) = (300, Duration::from_secs(5));
/// The label with the image of a container that was created by the image's id.
const IMAGE_LABEL: &str = "/Config/Labels/io.delegate-upgrader.image";

/// The possible ends of a delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It works.
    Works,
    /// It is as its owner left it: stopped or paused.
    Stands,
    /// It is gone.
    Gone,
}

/// An act at a stage, and its result.
pub(crate) struct Case<'a> {
    pub(crate) site: &'a Site,
    pub(crate) scenario: Scenario,
    pub(crate) stage: &'a Stage,
    pub(crate) act: Act,
    pub(crate) given: &'a Given,
}

impl Case<'_> {
    /// The errors on the host.
    pub(crate) async fn wrongs(&self) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let rows = rows(self.site).await;
            let mut least = self.leftovers(&rows);
            if let Some(wrongs) = self.delegate_wrongs(&rows).await {
                least.extend(wrongs);
            }
            if least.is_empty() || begin.elapsed() > COMES_TO_REST {
                return least;
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// The permitted ends. The upgrader brings back a missing delegate, so nearly every end is a working delegate.
    fn ends(&self) -> Vec<End> {
        let Stage { phase, .. } = self.stage;
        // The held call, and other containers on the host, may change which one serves.
        let is_settled =
            matches!(phase, Phase::Alone | Phase::Beside | Phase::Over) && !self.stage.is_commit();
        let was_last = !self.given.something_is_left;
        let is_rm = self.scenario.shape.rm;
        let serves_alone = match self.stage.kind() {
            _ if self.stage.moment == Moment::After => false,
            // Docker removes the old container at this moment, whatever the person does.
            "remove-old" => self.act.target() == Some(Target::Serving),
            // The candidate gets the name at this moment, and an old container with `--rm` has vanished.
            "rename-candidate-to-service" => self.act.target() == Some(Target::Candidate) && is_rm,
            _ => false,
        };
        match self.act {
            Act::Stop(_) | Act::Pause(_) | Act::Remove(_) if serves_alone => {
                vec![End::Gone, End::Stands, End::Works]
            }
            Act::Stop(_) | Act::Remove(_) | Act::Prune if was_last => vec![End::Gone, End::Works],
            // Its owner stopped it, so it is removed.
            Act::Stop(Target::Serving) if is_rm => match phase {
                Phase::Over => vec![End::Gone],
                Phase::Replaced => vec![End::Works, End::Gone],
                _ => vec![End::Works],
            },
            Act::Stop(Target::Serving) | Act::Pause(Target::Serving) if is_settled => vec![End::Stands],
            Act::Stop(Target::Serving) | Act::Pause(Target::Serving) => vec![End::Stands, End::Works],
            _ => vec![End::Works],
        }
    }

    /// The leftovers: only NAME, the container that the person renamed, and one rejected candidate may be there.
    fn leftovers(&self, rows: &[Row]) -> Vec<String> {
        let Site { name, .. } = self.site;
        let is_ended = |row: &Row| matches!(row.state.as_str(), "exited" | "created");
        let may_be_kept = matches!(self.act, Act::Rename(_));
        let mut failed = 0;
        let mut wrongs = Vec::new();
        for row in rows.iter().filter(|row| row.name != *name) {
            let is_kept = may_be_kept && row.name == self.site.kept_name();
            let is_failed = self.may_reject() && row.name.starts_with(&format!("{name}.failed-"));
            failed += usize::from(is_failed);
            // Both were stopped, and nothing happens until one of them runs again.
            let is_stopped = self.act == Act::Stop(Target::Serving) && self.stage.phase == Phase::Replaced;
            let is_behind = is_stopped && row.name.starts_with(&format!("{name}.draining-"));
            if !(is_kept || (is_failed && failed == 1 || is_behind) && is_ended(row)) {
                wrongs.push(format!("left over: {} ({})", row.name, row.state));
            }
        }
        wrongs
    }

    /// An interrupted candidate is rejected, and so is a new container that the person takes out of service.
    fn may_reject(&self) -> bool {
        let is_new = match self.act.target() {
            Some(Target::Candidate) => true,
            Some(Target::Serving) => self.stage.phase == Phase::Replaced,
            _ => false,
        };
        is_new && self.act.interrupts()
    }

    /// The fewest errors over all permitted ends, and over all containers that may be the delegate.
    async fn delegate_wrongs(&self, rows: &[Row]) -> Option<Vec<String>> {
        let Site { name, engine, .. } = self.site;
        let is_rejected = rows.iter().any(|row| row.name.contains(".failed-"));
        let mut all = Vec::new();
        for end in self.ends() {
            if end == End::Gone {
                let is_there = rows.iter().any(|row| row.name == *name);
                all.push(Vec::from_iter(is_there.then(|| format!("{name} is still there"))));
                continue;
            }
            for place in [name.clone(), self.site.kept_name()] {
                let wrongs = match engine.inspect(&place).await {
                    Some(document) => self.document_wrongs(&document, end, is_rejected).await,
                    None => vec![format!("{end:?}: there is no {place}")],
                };
                all.push(wrongs);
            }
        }
        all.into_iter().min_by_key(Vec::len)
    }

    async fn document_wrongs(&self, document: &Value, end: End, is_rejected: bool) -> Vec<String> {
        let Site { images, before, .. } = self.site;
        let mut wrongs = Vec::new();
        let state = text(document, "/State/Status");
        let is_right = match (end, self.act) {
            (End::Works, _) => state == "running",
            (_, Act::Pause(_)) => state == "paused",
            _ => state == "exited",
        };
        if !is_right {
            wrongs.push(format!("{end:?}: it is {state}"));
        }
        if end == End::Stands {
            return wrongs;
        }
        if state == "running"
            && let Err(problem) = healthy(document).await
        {
            wrongs.push(format!("it is not healthy: {problem}"));
        }
        let image = image_of(document);
        // A candidate that Docker keeps up and a person stops is withdrawn, and not tried again in this run.
        let may_be_old = is_rejected || self.act == Act::Stop(Target::Candidate);
        if image != images.new && !(may_be_old && image == images.old) {
            wrongs.push(format!("it has the image {image}"));
        }
        let (was, given, is) = (
            configuration(before),
            self.given.configuration.clone(),
            configuration(document),
        );
        let is_stop_first = self.scenario.shape.stop_first;
        let must_be_given = self.act == Act::Compose
            || self.act.changes_settings() && (is_stop_first || !self.stage.is_commit());
        let references = if must_be_given {
            vec![given]
        } else {
            vec![given, was]
        };
        let found = references.into_iter().map(|was| {
            let mut found = Vec::new();
            differences("", &was, &is, &mut found);
            found
        });
        wrongs.extend(found.min_by_key(Vec::len).unwrap_or_default());
        wrongs
    }

    /// Whether a delegate works at every moment.
    pub(crate) fn has_no_gap(&self) -> bool {
        let is_interrupted = self.act.target() == Some(Target::Serving) && self.act.interrupts();
        !self.scenario.shape.stop_first && !is_interrupted
    }

    /// Containers that were killed, which only the person may do here.
    pub(crate) fn cut_short(&self, events: &[Event]) -> Vec<String> {
        let is_target = |event: &&Event| self.given.target.as_ref() == Some(&event.id);
        let killed = events
            .iter()
            .filter(|event| event.action == "kill" && event.signal == "9" && !is_target(event));
        killed
            .map(|event| format!("{} was killed with its tasks", event.name))
            .collect()
    }
}

/// All containers of this delegate, including those that Compose names `<id>_NAME`.
pub(crate) async fn rows(site: &Site) -> Vec<Row> {
    let listed = site.engine.expect("GET", "/containers/json?all=1", None).await;
    let rows = listed.as_array().into_iter().flatten().map(|row| Row {
        id: text(row, "/Id"),
        name: text(row, "/Names/0").trim_start_matches('/').to_owned(),
        state: text(row, "/State"),
    });
    rows.filter(|row| {
        let base = row.name.split('.').next().unwrap_or_default();
        let base = base.split_once('_').map_or(base, |(_, base)| base);
        base == site.name
    })
    .collect()
}

/// The image that a container was created from, as its owner would write it.
fn image_of(document: &Value) -> String {
    let label = text(document, IMAGE_LABEL);
    if label.is_empty() {
        text(document, "/Config/Image")
    } else {
        label
    }
}

/// The error in how a run ended. `log` is its output.
pub(crate) async fn exit(site: &Site, code: Option<i32>, log: &str) -> Option<String> {
    let mut serves = false;
    for place in [site.name.clone(), site.kept_name()] {
        let document = site.engine.inspect(&place).await.unwrap_or_default();
        serves |= text(&document, "/State/Status") == "running" && image_of(&document) == site.images.new;
    }
    match code {
        Some(1) if serves && !log.contains(&format!("{}.kept", site.name)) => {
            Some("exit code 1, and the new image serves".to_owned())
        }
        // A delegate without any container is not one of the host's.
        Some(_) if !serves && !log.contains("reason=") && !rows(site).await.is_empty() => {
            Some("the new image does not serve, and the log does not say why".to_owned())
        }
        _ => None,
    }
}

/// The calls that were repeated too often in one run.
pub(crate) fn repetitions(calls: &[Made]) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut changes: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.write) {
        *changes.entry(&call.name).or_default() += 1;
    }
    for (name, times) in changes {
        let is_create = name == "create-candidate";
        let most = if is_create { MOST_CANDIDATES } else { MOST_CHANGES };
        if times > most {
            wrongs.push(format!("{name} {times} times in one run"));
        }
    }
    let (most, time) = MOST_CALLS;
    let mut windows = calls.windows(most);
    if windows.any(|window| window[most - 1].at.duration_since(window[0].at) < time) {
        wrongs.push(format!("{most} calls within {} s", time.as_secs()));
    }
    wrongs
}
