//! The source of published images, and a round of questions to it.

use std::collections::BTreeMap;
use std::future::Future;

use super::error::ManagerError;
use crate::image::ImageReference;

/// A source of published images: a Harness Manager, or a fixed reference.
pub trait ImageSource: Send + Sync + 'static {
    /// The image published for delegates of `workload` that run `current`.
    ///
    /// `current` is sent as it is: see [`manager_reference`](crate::image::manager_reference).
    fn published(
        &self,
        current: &ImageReference,
        workload: &str,
    ) -> impl Future<Output = Result<ImageReference, ManagerError>> + Send;

    /// Whether there is a Manager behind it, which must hear of each workload from time to time.
    fn needs_check_in(&self) -> bool {
        true
    }
}

/// One question: which image is published for this workload, whose delegates run that image?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The delegates' `DELEGATE_NAME`.
    pub workload: String,
    /// The image they run, as the Manager knows it.
    pub image: ImageReference,
}

/// The answers to a round of questions, in the order in which these were asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers(Vec<(Query, Result<ImageReference, ManagerError>)>);

impl Answers {
    /// The answer to one question; `None` where it was not among those asked.
    pub fn get(&self, query: &Query) -> Option<&Result<ImageReference, ManagerError>> {
        self.iter()
            .find_map(|(asked, answer)| (asked == query).then_some(answer))
    }

    /// Each question with its answer.
    pub fn iter(&self) -> impl Iterator<Item = (&Query, &Result<ImageReference, ManagerError>)> {
        self.0.iter().map(|(query, answer)| (query, answer))
    }

    /// The outage that was met, if any.
    pub(crate) fn outage(&self) -> Option<&ManagerError> {
        self.iter()
            .filter_map(|(_, answer)| answer.as_ref().err())
            .find(|error| error.is_outage())
    }

    /// One answer for each workload. The Manager has heard of a workload for which it has answered, whichever of its
    /// images the question was about.
    pub(crate) fn by_workload(&self) -> BTreeMap<&str, &Result<ImageReference, ManagerError>> {
        let mut by_workload = BTreeMap::new();
        for (query, answer) in self.iter() {
            let known = by_workload.entry(query.workload.as_str()).or_insert(answer);
            if answer.is_ok() {
                *known = answer;
            }
        }
        by_workload
    }
}

/// Asks each question once, one after the other, each with its own retries.
///
/// A Manager that is down is not waited for once for each question: the first outage answers those that follow, too.
/// One that refuses a single question is still asked the others.
pub async fn ask_all<S: ImageSource>(source: &S, queries: impl IntoIterator<Item = Query>) -> Answers {
    let mut answers = Answers::default();
    for query in queries {
        if answers.get(&query).is_some() {
            continue;
        }
        let answer = match answers.outage() {
            Some(error) => Err(error.clone()),
            None => source.published(&query.image, &query.workload).await,
        };
        answers.0.push((query, answer));
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Refuses one workload, does not answer for another, and notes who was asked for.
    #[derive(Default)]
    struct Moody(Mutex<Vec<String>>);

    impl ImageSource for Moody {
        async fn published(
            &self,
            current: &ImageReference,
            workload: &str,
        ) -> Result<ImageReference, ManagerError> {
            self.0.lock().unwrap().push(format!("{workload} {current}"));
            match workload {
                "refused" => Err(ManagerError::AccessDenied),
                "slow" => Err(ManagerError::Unreachable("gone".to_owned())),
                _ => Ok("harness/delegate:2".parse().unwrap()),
            }
        }
    }

    async fn ask(questions: &[(&str, &str)]) -> (Vec<String>, Answers) {
        let source = Moody::default();
        let query = |(workload, image): &(&str, &str)| Query {
            workload: (*workload).to_owned(),
            image: image.parse().unwrap(),
        };
        let answers = ask_all(&source, questions.iter().map(query)).await;
        (source.0.into_inner().unwrap(), answers)
    }

    #[tokio::test]
    async fn replicas_are_one_question_and_another_image_or_workload_is_another_one() {
        let (asked, answers) = ask(&[
            ("a", "harness/delegate:1"),
            ("a", "docker.io/harness/delegate:1"),
            ("a", "harness/delegate:0"),
            ("b", "harness/delegate:1"),
        ])
        .await;
        assert_eq!(
            asked,
            [
                "a harness/delegate:1",
                "a harness/delegate:0",
                "b harness/delegate:1"
            ]
        );
        assert_eq!(answers.iter().count(), 3);
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
    }

    #[tokio::test]
    async fn a_refusal_keeps_no_other_question_from_being_asked_and_an_outage_does() {
        let (asked, answers) = ask(&[
            ("refused", "x/y:1"),
            ("a", "x/y:1"),
            ("slow", "x/y:1"),
            ("b", "x/y:1"),
        ])
        .await;
        assert_eq!(asked, ["refused x/y:1", "a x/y:1", "slow x/y:1"]);
        let kinds: Vec<_> = answers
            .iter()
            .map(|(query, answer)| {
                (
                    query.workload.as_str(),
                    answer.as_ref().err().map(ManagerError::kind),
                )
            })
            .collect();
        assert_eq!(
            kinds,
            [
                ("refused", Some("access_denied")),
                ("a", None),
                ("slow", Some("unreachable")),
                ("b", Some("unreachable")),
            ]
        );
    }

    #[tokio::test]
    async fn a_workload_has_been_answered_for_when_one_of_its_questions_was() {
        let unreachable = ManagerError::Unreachable(String::new());
        let query = |workload: &str, image: &str| Query {
            workload: workload.to_owned(),
            image: image.parse().unwrap(),
        };
        let answers = Answers(vec![
            (query("a", "x/y:1"), Err(ManagerError::AccessDenied)),
            (query("a", "x/y:2"), Ok("x/y:3".parse().unwrap())),
            (query("a", "x/y:4"), Err(unreachable.clone())),
            (query("b", "x/y:1"), Err(unreachable)),
        ]);
        let by_workload = answers.by_workload();
        assert!(by_workload["a"].is_ok());
        assert!(by_workload["b"].is_err());
        assert_eq!(by_workload.len(), 2);
    }
}
