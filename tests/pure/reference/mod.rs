//! The pages of `docs/reference` are written from the code: `UPDATE_DOCS=1 cargo test --test pure reference` writes them.
//!
//! Words that the code does not contain, such as the advice on a reason, are in these files: in a `match` that the
//! compiler requires to be complete, or in a list that a test compares with the code.

mod causes;
mod events;
pub(crate) mod examples;
mod exit_codes;
mod labels;
mod metrics;
mod reasons;
mod tested;
mod troubleshooting;

use delegate_upgrader::rollout::reason::ReasonKind;
use strum::VariantArray as _;

/// Every reason.
pub(crate) fn kinds() -> impl Iterator<Item = ReasonKind> {
    ReasonKind::VARIANTS.iter().copied()
}

/// Words of a list, each as code.
fn as_code<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}
