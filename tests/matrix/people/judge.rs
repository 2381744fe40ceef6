//! What is on the host at the end of a point of the people's matrix, and whether it may be.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::images;
use super::perform::{Done, Site};
use super::rules::act::{Act, ContainerAct, ImageAct};
use super::rules::expect::{Condition, End, Expected, Image, Place, Settings, Spare};
use crate::check::{configuration, differences, healthy, text};
use crate::events::Event;
use crate::proxy::Made;
use kit::lab::engine::Row;

/// What the engine does by itself after the upgrader's end may take this long.
const COMES_TO_REST: Duration = Duration::from_secs(10);
/// One that is made in vain, since somebody acted, and one more. The old one of an `--rm` delegate is recreated under the
/// same name.
const MOST_CANDIDATES: usize = 2;
/// How often any other change may be asked for in one run.
const MOST_CHANGES: usize = 5;
/// How many calls are too many, and in which time. An upgrade inspects up to five containers four times a second, and
/// what somebody made beside it may be a delegate of its own.
const MOST_CALLS: (usize, Duration) = (300, Duration::from_secs(5));
/// The label that has the image of a container that was created by the image's id.
const IMAGE_LABEL: &str = "/Config/Labels/io.delegate-upgrader.image";

/// What is wrong with the host; nothing, hopefully.
pub(crate) async fn host(site: &Site, act: Option<Act>, expected: &Expected, done: &Done) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let mut least: Option<Vec<String>> = None;
        let rows = rows(site).await;
        for end in &expected.ends {
            let wrongs = wrongs(site, &rows, *end, expected.spare, done).await;
            if least.as_ref().is_none_or(|least| wrongs.len() < least.len()) {
                least = Some(wrongs);
            }
        }
        let mut wrongs = least.unwrap_or_default();
        wrongs.extend(image_wrongs(site, act).await);
        if wrongs.is_empty() || begin.elapsed() > COMES_TO_REST {
            return wrongs;
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// All containers of this delegate, those that compose calls `<id>_NAME` too.
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

async fn wrongs(site: &Site, rows: &[Row], end: End, spare: Spare, done: &Done) -> Vec<String> {
    let mut wrongs = Vec::new();
    let kept = site.kept_name();
    let main = match end.place {
        Place::Name => Some(site.name.clone()),
        Place::Kept => Some(kept.clone()),
        Place::Gone => None,
    };
    let remade = match done {
        Done::Yes {
            target: Some((_, name)),
            ..
        } => name.as_str(),
        _ => "",
    };
    for row in rows.iter().filter(|row| Some(&row.name) != main.as_ref()) {
        let may_be_there = match spare {
            Spare::None => false,
            Spare::Kept { .. } => row.name == kept && matches!(row.state.as_str(), "exited" | "created"),
            Spare::Remade => row.name == remade,
        };
        if !may_be_there {
            wrongs.push(format!("left over: {} ({})", row.name, row.state));
        }
    }
    if spare == (Spare::Kept { must: true }) && !rows.iter().any(|row| row.name == kept) {
        wrongs.push("what somebody renamed is gone".to_owned());
    }
    let Some(main) = main else { return wrongs };
    let Some(document) = site.engine.inspect(&main).await else {
        wrongs.push(format!("there is no {main}"));
        return wrongs;
    };
    wrongs.extend(delegate_wrongs(site, &document, end, done).await);
    wrongs
}

async fn delegate_wrongs(site: &Site, document: &Value, end: End, done: &Done) -> Vec<String> {
    let mut wrongs = Vec::new();
    let state = text(document, "/State/Status");
    let is_right = match end.condition {
        Condition::Up => state == "running",
        Condition::Stopped => matches!(state.as_str(), "exited" | "created"),
        Condition::Paused => state == "paused",
    };
    if !is_right {
        wrongs.push(format!("it is {state} and not {:?}", end.condition));
    } else if end.condition == Condition::Up
        && let Err(problem) = healthy(document).await
    {
        wrongs.push(format!("it is not healthy: {problem}"));
    }
    let image = image_of(document);
    let expected = match end.image {
        Image::Old => &site.images.old,
        Image::New => &site.images.new,
    };
    if image != *expected {
        wrongs.push(format!("it has the image {image}"));
    }
    let before = configuration(&site.before);
    let given = match done {
        Done::Yes { given, .. } => given,
        _ => &before,
    };
    let references = match end.settings {
        Settings::Before => vec![&before],
        Settings::Given => vec![given],
        Settings::Either => vec![&before, given],
    };
    let is = configuration(document);
    let found = references.into_iter().map(|was| {
        let mut found = Vec::new();
        differences("", was, &is, &mut found);
        found
    });
    wrongs.extend(found.min_by_key(Vec::len).unwrap_or_default());
    wrongs
}

/// The image that a container was created from, as its owner would write it.
pub(crate) fn image_of(document: &Value) -> String {
    let label = text(document, IMAGE_LABEL);
    if label.is_empty() {
        text(document, "/Config/Image")
    } else {
        label
    }
}

/// What somebody tagged stays tagged, and what runs is what was published.
async fn image_wrongs(site: &Site, act: Option<Act>) -> Option<String> {
    let Some(Act::Image(act)) = act else { return None };
    let engine = &site.engine;
    if act == ImageAct::TagOld && images::id_of(engine, &site.images.old).await == site.images.old_id {
        return Some("the old image has its tag again, which somebody gave to another one".to_owned());
    }
    let document = engine.inspect(&site.name).await?;
    let (is, published) = (text(&document, "/Image"), &site.images.new_id);
    (is != *published).then(|| format!("it runs the image {is}, and {published} is published"))
}

/// What is wrong with how a run ended. `text` is what it printed.
pub(crate) async fn exit(
    site: &Site,
    act: Option<Act>,
    code: Option<i32>,
    expected: &Expected,
    text: &str,
) -> Option<String> {
    let is_plain = expected
        .ends
        .iter()
        .all(|end| end.place == Place::Name && end.condition == Condition::Up && end.image == Image::New);
    let is_made_anew = act.and_then(Act::on_container) == Some(ContainerAct::Compose);
    if !is_plain || is_made_anew {
        return None;
    }
    let document = site.engine.inspect(&site.name).await.unwrap_or_default();
    let is_up = crate::check::text(&document, "/State/Status") == "running";
    let serves = is_up && image_of(&document) == site.images.new;
    match (code, serves) {
        // Somebody restarts it in this moment.
        (Some(0), false) if text.contains("reason=\"not_running\"") => None,
        (Some(0), false) => Some("exit code 0, and the new image does not serve".to_owned()),
        (Some(1), true) => Some("exit code 1, and the new image serves".to_owned()),
        (Some(_), false) if !says_why(text) => {
            Some("the old image serves, and the log does not say why".to_owned())
        }
        _ => None,
    }
}

fn says_why(text: &str) -> bool {
    let warns = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    text.lines().filter(warns).any(|line| line.contains("reason="))
}

/// What was repeated too often in one run.
pub(crate) fn repetitions(calls: &[Made], rm: bool) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut changes: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.write) {
        *changes.entry(&call.name).or_default() += 1;
    }
    for (name, times) in changes {
        let most = if name == "create-candidate" {
            MOST_CANDIDATES + usize::from(rm)
        } else {
            MOST_CHANGES
        };
        if times > most {
            wrongs.push(format!("{name} {times} times in one run"));
        }
    }
    let (most, time) = MOST_CALLS;
    let is_burst = calls
        .windows(most)
        .any(|window| window[most - 1].at.duration_since(window[0].at) < time);
    if is_burst {
        wrongs.push(format!("{most} calls within {} s", time.as_secs()));
    }
    wrongs
}

/// Containers that were killed, which nobody but the person may do here.
pub(crate) fn cut_short(events: &[Event], done: &Done) -> Vec<String> {
    let target = match done {
        Done::Yes {
            target: Some((id, _)),
            ..
        } => id.as_str(),
        _ => "",
    };
    let killed = events
        .iter()
        .filter(|event| event.action == "kill" && event.signal == "9" && event.id != target);
    killed
        .map(|event| format!("{} was killed with its tasks", event.name))
        .collect()
}
