//! The audit trail: who changed what, and when.

use clap::Args;

use super::{Database, Said, time};
use crate::tables::table;

#[derive(Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    database: Database,
}

impl Audit {
    pub(crate) fn run(&self) -> Said {
        let trail = self.database.open()?.audit_trail()?;
        let rows: Vec<_> = trail
            .into_iter()
            .map(|entry| {
                let scope = entry.scope.to_string();
                [time(entry.at), entry.actor, entry.action, scope, entry.subject]
            })
            .collect();
        Ok(table(["TIME", "ACTOR", "ACTION", "SCOPE", "SUBJECT"], &rows))
    }
}
