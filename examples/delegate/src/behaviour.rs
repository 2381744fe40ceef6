//! How a test delegate behaves: read from text, asked at an instant.

use std::time::Duration;

/// Everything that can be told to a test delegate. The default behaves well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// The name that the image has for itself; printed at start.
    pub(crate) version: String,
    /// The port of the health endpoint.
    pub(crate) port: u16,
    /// The first moment of health after the start.
    pub(crate) start: Duration,
    /// How health continues from there.
    pub(crate) health: Health,
    /// How many tasks it executes until it is asked to stop.
    pub(crate) tasks: u64,
    /// How long the running tasks take once the delegate is asked to stop.
    pub(crate) drain: Duration,
    /// The process exits with 1 this long after its start.
    pub(crate) crash_after: Option<Duration>,
    /// The `host:port` of a Manager that has to accept its `DELEGATE_TOKEN` all the time.
    pub(crate) manager: Option<String>,
    /// SIGTERM is reported, and nothing else happens.
    pub(crate) ignore_sigterm: bool,
}

/// Health after the start-up time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// For good.
    Always,
    /// Not once.
    Never,
    /// Healthy and unhealthy in turns of this length, healthy first.
    Flap(Duration),
    /// Until this long after the start of the process.
    Until(Duration),
}

impl Behaviour {
    /// The variables that are read, from the environment or from a file.
    pub(crate) const KEYS: [&str; 11] = [
        "VERSION",
        "PORT",
        "START_SECONDS",
        "HEALTH",
        "FLAP_SECONDS",
        "UNHEALTHY_AFTER_SECONDS",
        "TASKS",
        "DRAIN_SECONDS",
        "CRASH_AFTER_SECONDS",
        "MANAGER",
        "IGNORE_SIGTERM",
    ];

    /// Reads the behaviour through `variable`, which answers for each of [`Self::KEYS`]; empty means unset.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |key: &str| variable(key).filter(|value| !value.is_empty());
        let seconds = |key: &str| {
            text(key)
                .map(
                    |value| match value.parse::<f64>().map(Duration::try_from_secs_f64) {
                        Ok(Ok(seconds)) => Ok(seconds),
                        _ => Err(format!("{key}={value}: a number of seconds is accepted")),
                    },
                )
                .transpose()
        };
        let health = match (text("HEALTH").as_deref(), seconds("UNHEALTHY_AFTER_SECONDS")?) {
            (None, None) => Health::Always,
            (None, Some(end)) => Health::Until(end),
            (Some("never"), None) => Health::Never,
            (Some("flap"), None) => match seconds("FLAP_SECONDS")? {
                None => Health::Flap(Duration::from_secs(5)),
                Some(turn) if turn.is_zero() => return Err("FLAP_SECONDS=0: more than 0 is accepted".into()),
                Some(turn) => Health::Flap(turn),
            },
            (Some("never" | "flap"), Some(_)) => {
                return Err("HEALTH and UNHEALTHY_AFTER_SECONDS: only one of them is accepted".into());
            }
            (Some(other), _) => return Err(format!("HEALTH={other}: never or flap is accepted")),
        };
        Ok(Self {
            version: text("VERSION").unwrap_or_else(|| "unknown".into()),
            port: match text("PORT") {
                None => 3460,
                Some(port) => port
                    .parse()
                    .map_err(|_| format!("PORT={port}: a port number is accepted"))?,
            },
            start: seconds("START_SECONDS")?.unwrap_or_default(),
            health,
            tasks: match text("TASKS") {
                None => 0,
                Some(count) => count
                    .parse()
                    .map_err(|_| format!("TASKS={count}: a number of tasks is accepted"))?,
            },
            drain: seconds("DRAIN_SECONDS")?.unwrap_or_default(),
            crash_after: seconds("CRASH_AFTER_SECONDS")?,
            manager: text("MANAGER"),
            ignore_sigterm: match text("IGNORE_SIGTERM").as_deref() {
                None | Some("false") => false,
                Some("true") => true,
                Some(other) => return Err(format!("IGNORE_SIGTERM={other}: true or false is accepted")),
            },
        })
    }

    /// Whether the delegate is healthy this long after its start.
    pub(crate) fn healthy_at(&self, age: Duration) -> bool {
        let Some(since) = age.checked_sub(self.start) else {
            return false;
        };
        match self.health {
            Health::Always => true,
            Health::Never => false,
            Health::Flap(turn) => (since.as_nanos() / turn.as_nanos()).is_multiple_of(2),
            Health::Until(end) => age < end,
        }
    }
}

/// The `KEY=VALUE` lines of a behaviour file; `#` starts a comment. A key that nobody reads is an error, since
/// a mistyped misbehaviour would make a test pass for the wrong reason.
pub(crate) fn parse_file(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once('=') {
            Some((key, value)) if Behaviour::KEYS.contains(&key) => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!(
                "{line}: KEY=VALUE is accepted, KEY one of {}",
                Behaviour::KEYS.join(", ")
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings, and the health that they give at some seconds.
    type Case = (&'static [(&'static str, &'static str)], &'static [(u64, bool)]);

    fn read(pairs: &[(&str, &str)]) -> Result<Behaviour, String> {
        Behaviour::read(|key| {
            pairs
                .iter()
                .find(|(k, _)| *k == key)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn health_follows_the_behaviour_through_time() {
        let cases: [Case; 6] = [
            (&[], &[(0, true), (9999, true)]),
            (&[("START_SECONDS", "30")], &[(29, false), (30, true)]),
            (&[("HEALTH", "never")], &[(0, false), (9999, false)]),
            (
                &[("HEALTH", "flap"), ("FLAP_SECONDS", "2")],
                &[(1, true), (2, false), (3, false), (4, true)],
            ),
            (
                &[("HEALTH", "flap"), ("START_SECONDS", "3")],
                &[(2, false), (3, true), (7, true), (8, false)],
            ),
            (
                &[("UNHEALTHY_AFTER_SECONDS", "20"), ("START_SECONDS", "5")],
                &[(4, false), (19, true), (20, false)],
            ),
        ];
        for (pairs, instants) in cases {
            let behaviour = read(pairs).unwrap();
            for (second, healthy) in instants {
                assert_eq!(
                    behaviour.healthy_at(Duration::from_secs(*second)),
                    *healthy,
                    "{pairs:?} at {second} s"
                );
            }
        }
    }

    #[test]
    fn a_value_that_means_nothing_is_refused_by_name() {
        for pair in [
            ("PORT", "70000"),
            ("START_SECONDS", "soon"),
            ("TASKS", "1.5"),
            ("DRAIN_SECONDS", "-1"),
            ("CRASH_AFTER_SECONDS", "NaN"),
            ("HEALTH", "good"),
            ("IGNORE_SIGTERM", "yes"),
        ] {
            let problem = read(&[pair]).unwrap_err();
            assert!(
                problem.starts_with(&format!("{}={}", pair.0, pair.1)),
                "{problem}"
            );
        }
        assert!(read(&[("HEALTH", "flap"), ("FLAP_SECONDS", "0")]).is_err());
        assert!(read(&[("HEALTH", "never"), ("UNHEALTHY_AFTER_SECONDS", "1")]).is_err());
    }

    #[test]
    fn an_empty_value_is_an_unset_one() {
        assert_eq!(read(&[("PORT", ""), ("HEALTH", ""), ("VERSION", "")]), read(&[]));
    }

    #[test]
    fn a_behaviour_file_takes_comments_and_refuses_unknown_keys() {
        let lines = parse_file("# version 2\nVERSION=26.02.1\n\n HEALTH=never \n").unwrap();
        assert_eq!(
            lines,
            [
                ("VERSION".into(), "26.02.1".into()),
                ("HEALTH".into(), "never".into())
            ]
        );
        assert!(parse_file("HEALHT=never").unwrap_err().contains("HEALHT"));
        assert!(parse_file("HEALTH").is_err());
    }
}
