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
    pub fn by_workload(&self) -> BTreeMap<&str, &Result<ImageReference, ManagerError>> {
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
