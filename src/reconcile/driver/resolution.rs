//! Which image a workload of an orchestrator should run: a question that is open, and then its answer.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::document::offered_platforms;
use crate::image::{ImageReference, TargetSettings, manager_reference, resolve};
use crate::managed::Managed;
use crate::manager::Query;
use crate::net::retry::Retry;
use crate::reconcile::questions::{Answer, Question};
use crate::rollout::reason::{Awaited, Reason};
use crate::rollout::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};

/// A search for the image that a workload should run: open, or resolved.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that it was to run when the first question was asked.
    image: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { question: Question, since: Instant },
    Resolved(Result<ImageReference, Reason>),
}

impl State {
    fn open(question: Question) -> Self {
        let since = Instant::now();
        Self::Open { question, since }
    }
}

impl Resolution {
    /// Asks the Manager first; `None` where nothing is asked about a workload.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        let state = match managed.image.reference() {
            _ if managed.opted_out.is_some() || managed.unsupported.is_some() => return None,
            Ok(current) => State::open(Question::Published(Query {
                workload: managed.workload.clone(),
                image: manager_reference(current, settings),
            })),
            Err(problem) => State::Resolved(Err(not_comparable(&managed.image, problem.to_string()))),
        };
        let image = managed.image.to_string();
        Some(Self { image, state })
    }

    /// That which an operator wants, whatever is published.
    pub(super) fn fixed(managed: &Managed, image: ImageReference) -> Self {
        Self {
            image: managed.image.to_string(),
            state: State::Resolved(Ok(image)),
        }
    }

    /// The open question, and since when it is.
    pub(super) fn question(&self) -> Option<(&Question, Instant)> {
        match &self.state {
            State::Open { question, since } => Some((question, *since)),
            State::Resolved(_) => None,
        }
    }

    /// Whose answer is awaited. `last_error` is the Manager's.
    pub(super) fn awaited(&self, last_error: Option<&str>) -> Option<Reason> {
        let (question, since) = self.question()?;
        let (from, last_error) = match question {
            Question::Distribution(image) => (Awaited::Registry(image.registry().to_owned()), None),
            _ => (Awaited::Manager, last_error.map(str::to_owned)),
        };
        Some(Reason::AwaitingAnswer {
            from,
            waited: since.elapsed(),
            last_error,
        })
    }

    /// Takes in an answer, if it is to the open question. With `platforms`, the registry is asked for the digest of an image,
    /// which has to be there for all of them.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        (question, answer): (&Question, &Answer),
        settings: &TargetSettings,
        platforms: Option<&[String]>,
    ) {
        let Ok(current) = managed.image.reference() else {
            return;
        };
        if self.question().is_none_or(|(open, _)| open != question) {
            return;
        }
        self.state = State::Resolved(match (question, answer) {
            (_, Answer::Published(Err(error))) => Err(Reason::target_unknown(error)),
            (_, Answer::Published(Ok(published))) => {
                match (
                    wanted(resolve(published, current, settings), &managed.image),
                    platforms,
                ) {
                    (Ok(Wanted::Image(image) | Wanted::Digest(image)), Some(_)) => {
                        self.state = State::open(Question::Distribution(image));
                        return;
                    }
                    (Ok(Wanted::Image(image)), None) => Ok(image),
                    // The same reference is the same for the orchestrator, too: it would restart nothing.
                    (Ok(Wanted::Digest(_)), None) => Err(up_to_date(&managed.image)),
                    (Err(reason), _) => Err(reason),
                }
            }
            (Question::Distribution(reference), Answer::Distribution(answer)) => {
                pinned(managed, current, reference, answer, platforms.unwrap_or_default())
            }
            _ => return,
        });
    }

    /// The image that it should run, or why it keeps its own. `last_error` is the Manager's.
    pub(super) fn target(
        &self,
        managed: &Managed,
        last_error: Option<&str>,
    ) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { .. } => Err(self.awaited(last_error).unwrap_or_else(not_asked)),
            // It runs what it was to be given by then, or somebody gave it another image.
            State::Resolved(Ok(target)) if managed.image.refers_to(target) => Err(up_to_date(&managed.image)),
            State::Resolved(Ok(target)) => Ok(target.clone()),
            State::Resolved(Err(reason)) if self.image == managed.image.as_str() => Err(reason.clone()),
            State::Resolved(Err(_)) => Err(not_asked()),
        }
    }
}

/// The longest that one of these has waited.
pub(super) fn longest_wait<'a>(all: impl Iterator<Item = &'a Resolution>) -> Option<Duration> {
    all.filter_map(|resolution| Some(resolution.question()?.1.elapsed()))
        .max()
}

/// The reference with the digest of its index, where the registry has it for all platforms that are needed.
fn pinned(
    managed: &Managed,
    current: &ImageReference,
    reference: &ImageReference,
    answer: &Result<Value, Reason>,
    platforms: &[String],
) -> Result<ImageReference, Reason> {
    let distribution = answer.as_ref().map_err(Clone::clone)?;
    let image = || reference.to_string();
    let unknown = |problem: &str| Reason::DigestUnknown {
        image: image(),
        problem: problem.to_owned(),
        retry: Retry::Never,
    };
    let digest = distribution.pointer("/Descriptor/digest").and_then(Value::as_str);
    let digest = digest.filter(|digest| !digest.is_empty());
    let digest = digest.ok_or_else(|| unknown("it answers without a digest"))?;
    if current.digest() == Some(digest) {
        return Err(if current.tag() == reference.tag() {
            up_to_date(&managed.image)
        } else {
            Reason::SameImage { image: image() }
        });
    }
    if let Some(offered) = offered_platforms(distribution)
        && let Some(needed) = platforms.iter().find(|needed| !offered.contains(needed))
    {
        return Err(Reason::WrongPlatform {
            image: image(),
            offered: offered.join(", "),
            needed: needed.clone(),
        });
    }
    let written = image();
    let name = written.split_once('@').map_or(written.as_str(), |(name, _)| name);
    format!("{name}@{digest}")
        .parse()
        .map_err(|_| unknown("its digest is not one"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::managed::{Orchestrator, Progress, Record, Tasks};
    use crate::rollout::OwnerSettings;

    const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
    const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

    /// What comes of an answer of the registry, for a service with an image of [`DIGEST`] on nodes of two platforms.
    fn answered(published: &str, answer: &Value) -> Result<ImageReference, Reason> {
        let image = format!("harness/delegate:26.01.1@{DIGEST}");
        let managed = Managed {
            orchestrator: Orchestrator::Swarm,
            id: "id".to_owned(),
            name: "delegate".to_owned(),
            workload: "delegate".to_owned(),
            image: image.as_str().into(),
            progress: Progress::Settled { completed_at: None },
            tasks: Tasks::default(),
            record: Record::default(),
            opted_out: None,
            limits: OwnerSettings::default(),
            unsupported: None,
            pace: std::time::Duration::ZERO,
        };
        let platforms = ["linux/amd64".to_owned(), "linux/arm64".to_owned()];
        let (current, reference) = (image.parse(), published.parse());
        let (Ok(current), Ok(reference)) = (current, reference) else {
            unreachable!("both are references")
        };
        pinned(&managed, &current, &reference, &Ok(answer.clone()), &platforms)
    }

    #[test]
    fn the_digest_of_the_index_is_what_counts() {
        let both =
            json!([{ "os": "linux", "architecture": "amd64" }, { "os": "linux", "architecture": "arm64" }]);
        let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": both });
        let pinned = answered("harness/delegate:26.02.2", &answer).map(|image| image.to_string());
        assert_eq!(pinned, Ok(format!("harness/delegate:26.02.2@{OTHER}")));
        let answer = json!({ "Descriptor": { "digest": DIGEST }, "Platforms": both });
        let same = answered("harness/delegate:26.02.2", &answer);
        assert!(matches!(same, Err(Reason::SameImage { .. })), "{same:?}");
    }

    #[test]
    fn an_answer_without_a_digest_is_no_other_image() {
        for answer in [
            json!({}),
            json!({ "Descriptor": { "digest": "" } }),
            json!({ "Descriptor": { "digest": "latest" } }),
        ] {
            let unknown = answered("harness/delegate:26.02.2", &answer);
            assert!(
                matches!(unknown, Err(Reason::DigestUnknown { .. })),
                "{unknown:?}"
            );
        }
    }

    #[test]
    fn an_image_has_to_have_the_platforms_of_all_nodes() {
        let one = json!([{ "os": "linux", "architecture": "amd64" }, { "os": "unknown", "architecture": "unknown" }]);
        let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": one });
        let refused = answered("harness/delegate:26.02.2", &answer);
        assert!(
            matches!(&refused, Err(Reason::WrongPlatform { needed, .. }) if needed == "linux/arm64"),
            "{refused:?}"
        );
        // A manifest alone does not say for which.
        let answer = json!({ "Descriptor": { "digest": OTHER }, "Platforms": [{}] });
        assert!(answered("harness/delegate:26.02.2", &answer).is_ok());
    }
}
