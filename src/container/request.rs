//! The person who asked for a change, and the reason, as labels keep them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::label::{REQUEST_REASON, REQUESTED_BY};
use crate::text::one_line;

/// The longest name and the longest reason, in characters.
const LONGEST: [usize; 2] = [64, 200];
/// The label's value if the person's name is unknown: a label without a value counts as missing.
const UNKNOWN: &str = "unknown";

/// An operator's request, as far as it is known who made it. Both parts are what someone typed, or wrote on a container: one line of
/// limited length, and no proof of identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// The person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Request {
    /// A request by this person for this reason.
    pub fn new(by: Option<&str>, reason: Option<&str>) -> Self {
        let [by, reason] = [(by, LONGEST[0]), (reason, LONGEST[1])].map(|(text, longest)| {
            let text = one_line(text?, longest);
            Some(text).filter(|text| !text.is_empty() && text != UNKNOWN)
        });
        Self { by, reason }
    }

    /// Reads the request from labels; `None` if no operator made one.
    pub fn read<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        Some(Self::new(Some(label(REQUESTED_BY)?), label(REQUEST_REASON)))
    }

    /// The labels of the request.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, String)> {
        let by = self.by.as_deref().unwrap_or(UNKNOWN).to_owned();
        let reason = self.reason.clone().map(|reason| (REQUEST_REASON, reason));
        [(REQUESTED_BY, by)].into_iter().chain(reason)
    }
}

/// The end of a sentence, empty if nothing is known.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.by, &self.reason) {
            (None, None) => Ok(()),
            (Some(by), None) => write!(f, "; requested by {by}"),
            (None, Some(reason)) => write!(f, "; requested: {reason}"),
            (Some(by), Some(reason)) => write!(f, "; requested by {by}: {reason}"),
        }
    }
}
