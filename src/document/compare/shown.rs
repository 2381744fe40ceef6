//! A difference in a form that is safe to show. The place is always shown, a value only if it cannot be a secret.

use std::fmt;

use serde_json::Value;

use crate::text::one_line;

/// The longest path to show, in characters. The names in it come from the container.
const MAX_PATH: usize = 200;

/// A wrong setting of a recreated container.
///
/// The values may be secrets. `Display` and `Debug` show only those that cannot be.
#[derive(Clone, PartialEq)]
pub struct Difference {
    path: String,
    expected: Value,
    found: Value,
}

impl Difference {
    pub(super) fn new(path: impl Into<String>, expected: Option<&Value>, found: Option<&Value>) -> Self {
        Self {
            path: path.into(),
            expected: expected.cloned().unwrap_or_default(),
            found: found.cloned().unwrap_or_default(),
        }
    }

    /// Returns the text of a change, for which the expected value is the former one.
    pub(super) fn as_change(&self) -> String {
        let path = one_line(&self.path, MAX_PATH);
        let [before, now] = [&self.expected, &self.found].map(|value| Shown(&self.path, value));
        format!("{path} was {before}, and is {now}")
    }

    /// Returns the path of the setting, such as `/Config/Env/NAME`, including names in lists and maps.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} expected, {} found",
            one_line(&self.path, MAX_PATH),
            Shown(&self.path, &self.expected),
            Shown(&self.path, &self.found)
        )
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Difference({self})")
    }
}

/// The places whose strings are not secrets. Environments, commands, labels, log options and driver options may all contain
/// tokens, and an unknown field may contain anything.
const PUBLIC: [&str; 29] = [
    "/Config/User",
    "/Config/WorkingDir",
    "/Config/StopSignal",
    "/Config/Hostname",
    "/Config/Domainname",
    "/Config/MacAddress",
    "/Config/ExposedPorts",
    "/Config/Volumes",
    "/HostConfig/Binds",
    "/HostConfig/CapAdd",
    "/HostConfig/CapDrop",
    "/HostConfig/CgroupParent",
    "/HostConfig/CgroupnsMode",
    "/HostConfig/CpusetCpus",
    "/HostConfig/CpusetMems",
    "/HostConfig/Devices",
    "/HostConfig/Dns",
    "/HostConfig/ExtraHosts",
    "/HostConfig/GroupAdd",
    "/HostConfig/IpcMode",
    "/HostConfig/Links",
    "/HostConfig/NetworkMode",
    "/HostConfig/PidMode",
    "/HostConfig/PortBindings",
    "/HostConfig/RestartPolicy",
    "/HostConfig/Runtime",
    "/HostConfig/UTSMode",
    "/HostConfig/UsernsMode",
    "/HostConfig/VolumesFrom",
];

struct Shown<'a>(&'a str, &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(path, value) = self;
        let public = || {
            PUBLIC.iter().any(|prefix| {
                path.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        match value {
            Value::Null => f.write_str("nothing"),
            Value::Bool(_) | Value::Number(_) => write!(f, "{value}"),
            _ if public() => write!(f, "{value}"),
            _ => f.write_str("a value (not shown)"),
        }
    }
}
