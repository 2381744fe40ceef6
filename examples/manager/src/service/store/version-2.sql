-- Whether a run has ended since the first check-in. Upgraders of earlier versions had hours for theirs.
ALTER TABLE delegate ADD COLUMN synchronized INTEGER NOT NULL DEFAULT 0;
UPDATE delegate SET synchronized = 1 WHERE asked_at IS NOT NULL;

-- Who changed what. Nothing is ever changed or removed here.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;
