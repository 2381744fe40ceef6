//! Cron text → validated schedule, next runs, warnings.
