//! The engine's events: the lives of each container and its stop requests, without a gap between two looks.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use kit::lab::LABEL;

/// An event of a container; times are since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) action: String,
    pub(crate) signal: String,
}

impl Event {
    /// Whether the container was killed, and not asked to stop.
    pub(crate) fn is_kill(&self) -> bool {
        self.action == "kill" && self.signal == "9"
    }
}

type Events = Arc<Mutex<HashMap<String, Vec<Event>>>>;

/// Records the events of all containers of the matrix, by the value of their label.
pub(crate) struct Recorder {
    events: Events,
}

pub(crate) fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

impl Recorder {
    /// Listens for as long as the process lives; while the engine is down, no events arrive.
    pub(crate) fn start() -> Self {
        let events = Events::default();
        let record = Arc::clone(&events);
        let mut child = listen(now());
        tokio::spawn(async move {
            loop {
                take_down(&mut child, &record).await;
                let ended = now();
                sleep(Duration::from_millis(200)).await;
                child = listen(ended);
            }
        });
        Self { events }
    }

    /// The events of the containers with this label.
    pub(crate) fn of(&self, label: &str) -> Vec<Event> {
        let events = self.events.lock().expect("nobody panics with the events");
        events.get(label).cloned().unwrap_or_default()
    }

    /// Forgets the events of this label.
    pub(crate) fn forget(&self, label: &str) {
        let mut events = self.events.lock().expect("nobody panics with the events");
        events.remove(label);
    }
}

fn listen(since: Duration) -> Child {
    Command::new("docker")
        .args(["events", "--format", "{{json .}}", "--filter", "type=container"])
        .args(["--since", &since.as_secs().to_string()])
        .args(["--filter", &format!("label={LABEL}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("docker events")
}

async fn take_down(child: &mut Child, record: &Events) {
    let output = child.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((label, event)) = read(&line) {
            let mut record = record.lock().expect("nobody panics with the events");
            let events = record.entry(label).or_default();
            // After a reconnection from the same second on, an event arrives twice.
            if !events.contains(&event) {
                events.push(event);
            }
        }
    }
}

fn read(line: &str) -> Option<(String, Event)> {
    let event: Value = serde_json::from_str(line).ok()?;
    let actor = event.get("Actor")?;
    let attribute = |name: &str| {
        let text = actor.get("Attributes")?.get(name)?.as_str()?;
        Some(text.to_owned())
    };
    let event = Event {
        at: Duration::from_nanos(event.get("timeNano")?.as_u64()?),
        id: actor.get("ID")?.as_str()?.to_owned(),
        name: attribute("name").unwrap_or_default(),
        image: attribute("image").unwrap_or_default(),
        action: event.get("Action")?.as_str()?.to_owned(),
        signal: attribute("signal").unwrap_or_default(),
    };
    Some((attribute(LABEL)?, event))
}

/// The times from the first working moment until `end` in which no container worked. A container works from its start plus
/// the time that its image needs to become healthy (`None`: never), until it is asked to stop or ends.
pub(crate) fn gaps(
    events: &[Event],
    needs: impl Fn(&str) -> Option<Duration>,
    end: Duration,
) -> Vec<(Duration, Duration)> {
    let mut lives = Vec::new();
    let mut open: HashMap<&str, Duration> = HashMap::new();
    for event in events {
        match event.action.as_str() {
            "start" => {
                if let Some(needs) = needs(&event.image) {
                    open.insert(&event.id, event.at + needs);
                }
            }
            "kill" | "die" => {
                if let Some(begin) = open.remove(event.id.as_str()) {
                    lives.push((begin, event.at));
                }
            }
            _ => {}
        }
    }
    lives.extend(open.into_values().map(|begin| (begin, end)));
    lives.retain(|(begin, until)| begin < until);
    lives.sort();
    let mut gaps = Vec::new();
    let mut covered = match lives.first() {
        Some((begin, _)) => *begin,
        None => return vec![(Duration::ZERO, end)],
    };
    for (begin, until) in lives {
        if begin > covered {
            gaps.push((covered, begin));
        }
        covered = covered.max(until);
    }
    if covered < end {
        gaps.push((covered, end));
    }
    gaps
}
