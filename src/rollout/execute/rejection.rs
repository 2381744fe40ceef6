//! The record of a rejection.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::timeout;
use tracing::warn;

use crate::container::ContainerId;
use crate::engine::Engine;
use crate::host::hold::{Rejected, note_rejection};
use crate::rollout::Rollout;

/// The limit for writing the record: an old container may be waiting for the rejected one to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records on the engine that a candidate is rejected, before its name says so: if this process ends in between, the candidate is
/// judged once more. A record that cannot be written delays nothing, since the failed container says the same.
pub(super) async fn record_rejection<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    now: DateTime<Utc>,
) {
    let Some(member) = rollout.member(id) else {
        return;
    };
    let image = (&member.image, &member.image_id);
    let rejected = Rejected::new(id, &rollout.name, image, member.release, now);
    let lasting = |attempt| member.quarantine_after(attempt);
    let problem = match timeout(PATIENCE, note_rejection(engine, rejected, lasting)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the engine does not answer".to_owned(),
    };
    warn!(
        container = rollout.name,
        workload = rollout.workload,
        problem,
        "cannot record the rejection; its image stays in quarantine as long as the failed container is there"
    );
}
