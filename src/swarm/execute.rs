//! Takes the steps.

use super::{Defaults, Service, with_image, with_record};
use crate::engine::{Engine, EngineError, ServiceUpdate};
use crate::host::hold::note_first_seen;
use crate::image::ImageReference;
use crate::managed::{Attempt, Record, Step};
use chrono::{DateTime, Utc};

/// Takes a step. Swarm refuses it where the service is not as it was observed any more.
///
/// # Errors
/// The engine's; [`EngineError::Conflict`] where the service has changed meanwhile.
pub async fn execute<E: Engine>(
    engine: &E,
    service: &Service,
    step: &Step,
    defaults: Defaults,
    now: DateTime<Utc>,
) -> Result<(), EngineError> {
    let spec = &service.document["Spec"];
    let managed = &service.managed;
    let label = |record: &Record| with_record(spec, record, defaults);
    let (spec, image) = match step {
        Step::NoteFirstSeen { image } => return note_first_seen(engine, image, now).await,
        Step::Begin { to, intent } => (label(&managed.begin(&to.to_string(), *intent, now)), None),
        Step::Apply { to } => {
            let given = managed
                .record
                .clone()
                .with_attempt(|attempt| attempt.is_applied = true);
            let spec = with_image(&label(&given), &to.to_string(), defaults);
            (spec, Some(to.clone()))
        }
        // Not by Swarm's own rollback: it restores the labels of before, too, and so would forget the cause.
        Step::RollBack { to, cause } => {
            let failed = |attempt: &mut Attempt| attempt.failed = Some(cause.to_string());
            let record = managed.record.clone().with_attempt(failed);
            let spec = with_image(&label(&record), to, defaults);
            (spec, to.parse::<ImageReference>().ok())
        }
        Step::Quarantine { image, cause } => (label(&managed.quarantined(image, cause, now)), None),
        Step::NoteRollback { from } => (label(&managed.rolled_back(from)), None),
    };
    let update = ServiceUpdate {
        id: &managed.id,
        version: service.version(),
        spec: &spec,
        image: image.as_ref(),
    };
    engine.update_service(update).await
}
