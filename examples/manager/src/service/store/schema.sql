-- No organisation or project is the empty text: NULLs would be different from each other in a key.
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- What was published, the latest last.
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    image TEXT NOT NULL,
    published_at INTEGER NOT NULL
) STRICT;

-- The key itself has to be here: it is what opens a request.
CREATE TABLE token (
    name TEXT PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE api_key (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- At most two in each scope: one with tags, one without. Tags are a JSON array.
CREATE TABLE version_override (
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    tagged INTEGER NOT NULL,
    tags TEXT NOT NULL,
    image TEXT NOT NULL,
    release INTEGER NOT NULL,
    till_next_release INTEGER NOT NULL,
    valid_until INTEGER NOT NULL,
    PRIMARY KEY (org, project, tagged)
) STRICT;

CREATE TABLE delegate (
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    asked_at INTEGER,
    PRIMARY KEY (org, project, name)
) STRICT;

-- Where it was seen: the host that asked, and the image it asked about.
CREATE TABLE replica (
    org TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    image TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (org, project, name, host, image),
    FOREIGN KEY (org, project, name) REFERENCES delegate ON DELETE CASCADE
) STRICT;
