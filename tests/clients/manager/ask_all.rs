//! A round of questions: each is asked once, and the first outage answers the rest.

use std::sync::Mutex;

use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::{Answers, ImageSource, ManagerError, Query, ask_all};

/// Refuses one repository, does not answer for another, and notes the questions.
#[derive(Default)]
struct Moody(Mutex<Vec<String>>);

impl ImageSource for Moody {
    async fn published(
        &self,
        current: &ImageReference,
        workload: &str,
    ) -> Result<ImageReference, ManagerError> {
        self.0.lock().unwrap().push(format!("{workload} {current}"));
        match current.path() {
            "x/refused" => Err(ManagerError::AccessDenied),
            "x/slow" => Err(ManagerError::Unreachable("gone".to_owned())),
            _ => Ok("x/new:1".parse().unwrap()),
        }
    }
}

/// The questions that were sent, and the answers to all.
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
        ("a", "x/y:1"),
        ("a", "docker.io/x/y:1"),
        ("a", "x/y:0"),
        ("b", "x/y:1"),
    ])
    .await;
    assert_eq!(asked, ["a x/y:1", "a x/y:0", "b x/y:1"]);
    assert_eq!(answers.iter().count(), 3);
    assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
}

#[tokio::test]
async fn a_refusal_keeps_no_other_question_from_being_asked_and_an_outage_does() {
    let (asked, answers) = ask(&[
        ("a", "x/refused:1"),
        ("b", "x/y:1"),
        ("c", "x/slow:1"),
        ("d", "x/y:1"),
    ])
    .await;
    assert_eq!(asked, ["a x/refused:1", "b x/y:1", "c x/slow:1"]);
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
            ("a", Some("access_denied")),
            ("b", None),
            ("c", Some("unreachable")),
            ("d", Some("unreachable")),
        ]
    );
}

#[tokio::test]
async fn a_workload_has_been_answered_for_when_one_of_its_questions_was() {
    let (_, answers) = ask(&[
        ("a", "x/refused:1"),
        ("a", "x/y:1"),
        ("a", "x/slow:1"),
        ("b", "x/y:1"),
    ])
    .await;
    let by_workload = answers.by_workload();
    assert!(by_workload["a"].is_ok());
    assert!(by_workload["b"].is_err());
    assert_eq!(by_workload.len(), 2);
}
