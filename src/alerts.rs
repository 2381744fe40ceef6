//! Which alerts fire, as Prometheus says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use crate::config::AlertHold;
use crate::image::ImageReference;
use crate::net::receiver::{Answer, Receiver};
use crate::text::one_line;

/// How long the question may take, including its answer. `doctor` waits for it.
const LIMIT: Duration = Duration::from_secs(4);
/// The most bytes of an answer: some thousand alerts.
const LONGEST: usize = 1 << 20;
/// The most characters of a label, and of a list of names.
const LONGEST_TEXT: usize = 300;

/// An alert that fires.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// The only image that it is about. Only an alert with the labels `image` and `workload` of our metrics has one.
    pub image: Option<String>,
    /// Whether it has the label `ended_by="upgrade"`, so that it must not hold what ends it.
    pub is_ended_by_upgrade: bool,
}

impl Alert {
    /// Whether it holds upgrades to this image. Hosts may have one image from different registries: its tag counts.
    pub fn holds(&self, image: &ImageReference) -> bool {
        let is_about = |other: &String| match other.parse::<ImageReference>() {
            Ok(other) if other.tag().is_some() => other.tag() == image.tag(),
            Ok(other) => other.normalised() == image.normalised(),
            Err(_) => true,
        };
        !self.is_ended_by_upgrade && self.image.as_ref().is_none_or(is_about)
    }

    fn read(labels: &Value) -> Self {
        let label = |name: &str| labels[name].as_str().filter(|value| !value.is_empty());
        Self {
            name: one_line(label("alertname").unwrap_or_default(), LONGEST_TEXT),
            image: label("image")
                .filter(|_| label("workload").is_some())
                .map(|image| one_line(image, LONGEST_TEXT)),
            is_ended_by_upgrade: label("ended_by") == Some("upgrade"),
        }
    }
}

/// Its name, and its image if it is about one.
impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = self.image.as_ref().map(|image| format!(" of {image}"));
        write!(f, "{}{}", self.name, image.unwrap_or_default())
    }
}

/// Why it is unknown which alerts fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The problem, without secrets.
    pub problem: String,
    /// Whether Prometheus refuses the question itself, such as a wrong regular expression.
    pub is_refused: bool,
}

/// The alerts that fire, or why they are unknown.
pub type Firing = Result<Vec<Alert>, Unanswered>;

/// Asks which alerts fire.
pub type AskAlerts = Arc<dyn Fn() -> BoxFuture<'static, Firing> + Send + Sync>;

/// Asks Prometheus with this client.
pub fn asker(hold: &AlertHold, client: Client) -> AskAlerts {
    let receiver = Arc::new(Receiver::new(client, hold.url.clone(), hold.token.as_ref()));
    let (query, token) = (query(&hold.alerts), hold.token.clone());
    Arc::new(move || {
        let (receiver, query, token) = (Arc::clone(&receiver), query.clone(), token.clone());
        let make = move |client: &Client, url: &str| -> RequestBuilder {
            let request = client.get(address(url, &query));
            match token {
                Some(token) => request.bearer_auth(token.expose()),
                None => request,
            }
        };
        async move {
            let answer = receiver.fetch(LIMIT, LONGEST, make).await;
            answer.map_err(unanswered).and_then(|text| read(&text))
        }
        .boxed()
    })
}

/// The names of these alerts, each once.
pub fn names<'a>(alerts: impl IntoIterator<Item = &'a Alert>) -> String {
    let mut names: Vec<&str> = alerts.into_iter().map(|alert| alert.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    one_line(&names.join(", "), LONGEST_TEXT)
}

fn query(alerts: &str) -> String {
    let alerts = alerts
        .replace('\\', r"\\")
        .replace('"', r#"\""#)
        .replace('\n', r"\n");
    format!(
        r#"count by (alertname, image, workload, ended_by) (ALERTS{{alertstate="firing",alertname=~"{alerts}"}})"#
    )
}

/// The address of the question: the path may lead to a Prometheus behind a proxy.
fn address(base: &str, query: &str) -> String {
    let Ok(mut url) = base.parse::<Url>() else {
        return base.to_owned();
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "v1", "query"]);
    }
    url.query_pairs_mut().clear().append_pair("query", query);
    url.into()
}

fn unanswered(answer: Answer) -> Unanswered {
    let problem = answer.accepted().err().unwrap_or_default();
    Unanswered {
        is_refused: problem.starts_with("HTTP 400"),
        problem,
    }
}

fn read(text: &str) -> Firing {
    let answer = serde_json::from_str::<Value>(text).unwrap_or_default();
    let series = answer["data"]["result"].as_array();
    let Some(series) = series.filter(|_| answer["status"] == "success") else {
        return Err(Unanswered {
            problem: "PROMETHEUS_URL leads to something other than Prometheus".to_owned(),
            is_refused: false,
        });
    };
    let mut alerts: Vec<Alert> = series
        .iter()
        .map(|series| Alert::read(&series["metric"]))
        .collect();
    alerts.sort();
    alerts.dedup();
    Ok(alerts)
}
