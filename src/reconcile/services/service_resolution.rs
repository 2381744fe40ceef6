//! Which image a service should run: what is published, pinned to the digest that the registry has for it now.

use serde_json::Value;

use super::super::questions::{Answer, Question};
use crate::document::offered_platforms;
use crate::image::{ImageReference, TargetSettings, resolve};
use crate::managed::Managed;
use crate::net::retry::Retry;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::{Wanted, up_to_date, wanted};

/// What is known about the image that one service should run.
pub(super) type Resolution = crate::managed::Resolution<Question>;

impl Resolution {
    /// The first question about a service; `None` where nothing is asked about it.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        let is_asked = managed.opted_out.is_none() && managed.unsupported.is_none();
        is_asked.then(|| Self::first(managed, settings, Question::Published))
    }

    /// Takes in an answer, if it is to the open question.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        (question, answer): (&Question, &Answer),
        settings: &TargetSettings,
        platforms: &[String],
    ) {
        let Some(current) = self.asked_about(managed, question) else {
            return;
        };
        match (question, answer) {
            (_, Answer::Published(Err(error))) => self.resolve(Err(Reason::target_unknown(error))),
            (_, Answer::Published(Ok(published))) => {
                match wanted(resolve(published, current, settings), &managed.image) {
                    Ok(Wanted::Image(reference) | Wanted::Digest(reference)) => {
                        self.ask_registry(&reference, Question::Distribution(reference.clone()));
                    }
                    Err(reason) => self.resolve(Err(reason)),
                }
            }
            (Question::Distribution(reference), Answer::Distribution(answer)) => {
                self.resolve(pinned(managed, current, reference, answer, platforms));
            }
            _ => {}
        }
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
