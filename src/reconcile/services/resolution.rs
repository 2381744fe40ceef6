//! Which image a service should run: what is published, pinned to the digest that the registry has for it now.

use serde_json::Value;
use tokio::time::Instant;

use super::super::questions::{Answer, Question};
use super::super::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};
use crate::document::offered_platforms;
use crate::image::{ImageReference, TargetSettings, manager_reference, resolve};
use crate::managed::Managed;
use crate::manager::Query;
use crate::rollout::reason::{Awaited, Reason};

/// What is known about the image that one service should run.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that it was to run when it was asked for.
    image: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { question: Question, since: Instant },
    Resolved(Result<ImageReference, Reason>),
}

impl Resolution {
    /// The first question about a service; `None` where nothing is asked about it.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        if managed.opted_out.is_some() || managed.unsupported.is_some() {
            return None;
        }
        let state = match managed.image.reference() {
            Ok(current) => State::Open {
                question: Question::Published(Query {
                    workload: managed.workload.clone(),
                    image: manager_reference(current, settings),
                }),
                since: Instant::now(),
            },
            Err(problem) => State::Resolved(Err(not_comparable(&managed.image, problem.to_string()))),
        };
        Some(Self {
            image: managed.image.to_string(),
            state,
        })
    }

    /// That which an operator wants, whatever is published.
    pub(super) fn fixed(managed: &Managed, image: ImageReference) -> Self {
        Self {
            image: managed.image.to_string(),
            state: State::Resolved(Ok(image)),
        }
    }

    /// The open question.
    pub(super) fn question(&self) -> Option<&Question> {
        match &self.state {
            State::Open { question, .. } => Some(question),
            State::Resolved(_) => None,
        }
    }

    /// The image that it should run, or why it keeps its own.
    pub(super) fn target(&self, managed: &Managed) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { question, since } => Err(Reason::AwaitingAnswer {
                from: match question {
                    Question::Distribution(reference) => Awaited::Registry(reference.registry().to_owned()),
                    _ => Awaited::Manager,
                },
                waited: since.elapsed(),
                last_error: None,
            }),
            // It runs what it was to be given by then, or somebody gave it another image.
            State::Resolved(Ok(target)) if managed.image.refers_to(target) => Err(up_to_date(&managed.image)),
            State::Resolved(Ok(target)) => Ok(target.clone()),
            State::Resolved(Err(reason)) if self.image == managed.image.as_str() => Err(reason.clone()),
            State::Resolved(Err(_)) => Err(not_asked()),
        }
    }

    /// Takes in an answer, if it is to the open question.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        (question, answer): (&Question, &Answer),
        settings: &TargetSettings,
        platforms: &[String],
    ) {
        if self.question() != Some(question) {
            return;
        }
        let Ok(current) = managed.image.reference() else {
            return;
        };
        self.state = match (question, answer) {
            (_, Answer::Published(Err(error))) => State::Resolved(Err(Reason::TargetUnknown(error.clone()))),
            (_, Answer::Published(Ok(published))) => {
                match wanted(resolve(published, current, settings), &managed.image) {
                    Ok(Wanted::Image(reference) | Wanted::Digest(reference)) => State::Open {
                        question: Question::Distribution(reference),
                        since: Instant::now(),
                    },
                    Err(reason) => State::Resolved(Err(reason)),
                }
            }
            (Question::Distribution(reference), Answer::Distribution(answer)) => {
                State::Resolved(pinned(managed, current, reference, answer, platforms))
            }
            _ => return,
        };
    }
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
    use crate::rollout::OwnerLimits;

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
            limits: OwnerLimits::default(),
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
