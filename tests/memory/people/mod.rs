//! People, and what they have set up to tidy up, work on the host while a delegate is replaced. What they did stands;
//! otherwise the host ends with as many delegates as it had, each configured as it was.

mod images;
mod judging;
mod names;
mod numbers;
mod outcomes;
mod removed;
mod renamed_parts;
mod renamed_returns;
mod renames;
mod retries;
mod settings;
mod stops;
