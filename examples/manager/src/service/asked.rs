//! A question and its answer, as tests read them and as a line of the output shows them.

use std::collections::BTreeMap;

use serde::Serialize;

/// A question that was asked, and how it was answered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    /// Milliseconds since the epoch.
    pub(crate) at_ms: i64,
    /// `delegate-v2`, `delegate` or `upgrader`, or a call of the REST beside them.
    pub(crate) endpoint: &'static str,
    /// The query, decoded; of a parameter given several times, the first.
    pub(crate) query: BTreeMap<String, String>,
    /// The host that asked, as its token says, or the name of the API key.
    pub(crate) issuer: Option<String>,
    /// The status of the answer.
    pub(crate) status: u16,
    /// The image in the answer.
    pub(crate) image_tag: Option<String>,
    /// The code of the error in the answer.
    pub(crate) code: Option<String>,
}

impl Asked {
    pub(super) fn new(endpoint: &'static str, at_ms: i64) -> Self {
        Self {
            at_ms,
            endpoint,
            query: BTreeMap::new(),
            issuer: None,
            status: 200,
            image_tag: None,
            code: None,
        }
    }

    pub(super) fn line(&self) -> String {
        let mut words = vec![clock(self.at_ms), self.endpoint.to_owned()];
        let mut say = |text: &str| words.push(text.escape_debug().to_string());
        for name in [
            "delegateGroupName",
            "currentDelegateImageTag",
            "currentUpgraderImageTag",
            "orgIdentifier",
            "projectIdentifier",
            "delegateTag",
        ] {
            self.query.get(name).into_iter().for_each(|value| say(value));
        }
        say(&format!("-> {}", self.status));
        [&self.code, &self.image_tag]
            .into_iter()
            .flatten()
            .for_each(|text| say(text));
        words.join(" ")
    }
}

/// `12:34:56Z`
fn clock(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1_000).rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}
