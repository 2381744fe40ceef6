//! What a person can do at each stage of an upgrade, and what the host may look like after it. Needs no engine; its
//! tests are in `tests/pure/people.rs`.

pub(crate) mod act;
pub(crate) mod expect;
pub(crate) mod stage;
