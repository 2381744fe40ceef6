//! Every option, by its subject.

/// A row with an option at the top level of the create body, as JSON.
macro_rules! row {
    ($title:expr, $($patch:tt)+) => { crate::row::Row::new($title, serde_json::json!($($patch)+)) };
}

/// A row with an option in `HostConfig`.
macro_rules! host {
    ($title:expr, $($patch:tt)+) => { crate::row::Row::host($title, serde_json::json!($($patch)+)) };
}

/// A row with an endpoint in a network.
macro_rules! endpoint {
    ($title:expr, $network:expr, $($endpoint:tt)+) => {
        crate::row::Row::endpoint($title, $network, serde_json::json!($($endpoint)+))
    };
}

mod config;
mod images;
mod limits;
mod mounts;
mod networks;
mod real_files;
mod security;

use crate::row::Row;
use crate::surroundings::Surroundings;

/// Keys that inspect shows and that no row can set, each with the reason.
pub(crate) const NOT_OPTIONS: [(&str, &str); 5] = [
    ("Config/Image", "the image is what an upgrade changes"),
    (
        "Config/OnBuild",
        "an instruction of the image for builds; create ignores it",
    ),
    ("Config/ArgsEscaped", "Windows only"),
    ("HostConfig/IOMaximumIOps", "Windows only"),
    ("HostConfig/IOMaximumBandwidth", "Windows only"),
];

/// All rows.
pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = images::rows(around);
    rows.extend(config::rows());
    rows.extend(limits::rows(around));
    rows.extend(security::rows(around));
    rows.extend(mounts::rows(around));
    rows.extend(networks::rows(around));
    rows.extend(real_files::rows(around));
    rows
}
