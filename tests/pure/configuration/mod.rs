//! Right and wrong environments: every problem of a wrong one is reported at once, and never a secret.

mod certificates;
mod forms;
mod notifications;
mod right;
mod wrong;

use std::ffi::OsString;

use delegate_upgrader::config::{ConfigErrors, Needs, Settings};

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const TOKEN_BASE64: &str = "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=";
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const PASSWORD: &str = "hunter2-hunter2";

/// Secrets that no output may show.
const SECRETS: [&str; 4] = [TOKEN, TOKEN_BASE64, PASSWORD, "not-a-token-but-secret"];

type Vars<'a> = &'a [(&'a str, &'a str)];

/// The documented command's environment, and a zone so that the host's does not matter.
const BASE: Vars<'static> = &[
    ("ACCOUNT_ID", "acct-TEST_000000000000"),
    ("MANAGER_HOST_AND_PORT", "https://app.harness.io"),
    ("UPGRADER_WORKLOAD_NAME", "docker-delegate"),
    ("UPGRADER_TOKEN", TOKEN),
    ("SCHEDULE", "0 */1 * * *"),
    ("TZ", "UTC"),
    ("PATH", "/usr/bin"),
];

/// The base with these variables on top; an empty value removes a variable.
fn over_base(vars: Vars<'_>) -> Vec<(OsString, OsString)> {
    let kept = BASE
        .iter()
        .filter(|(name, _)| vars.iter().all(|(other, _)| other != name));
    kept.chain(vars)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn settings(vars: Vars<'_>) -> Settings {
    Settings::from_env(over_base(vars), Needs::All).unwrap_or_else(|errors| panic!("{vars:?}:\n{errors}"))
}

fn errors(vars: Vars<'_>) -> ConfigErrors {
    match Settings::from_env(over_base(vars), Needs::All) {
        Ok(_) => panic!("{vars:?} was taken"),
        Err(errors) => errors,
    }
}

fn assert_no_secret(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} shows {secret}:\n{text}");
    }
}
