//! Restart policies in the form of `docker run --restart`: `no`, `always`, `on-failure:5`.

use serde_json::{Value, json};

use super::Inspected;

impl Inspected {
    /// Returns its restart policy.
    pub fn restart_policy_text(&self) -> String {
        let name = match self.text("/HostConfig/RestartPolicy/Name") {
            "" => "no",
            name => name,
        };
        match self.number("/HostConfig/RestartPolicy/MaximumRetryCount") {
            Some(retries) if retries > 0 => format!("{name}:{retries}"),
            _ => name.to_owned(),
        }
    }
}

/// Returns `HostConfig.RestartPolicy` for a policy as text, the inverse of [`super::Inspected::restart_policy_text`].
pub fn restart_policy_document(policy: &str) -> Value {
    let (name, retries) = policy.split_once(':').unwrap_or((policy, "0"));
    json!({ "Name": name, "MaximumRetryCount": retries.parse::<u64>().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(host_config: &Value) -> String {
        let document = json!({ "Id": "x", "HostConfig": host_config });
        Inspected::new(document).unwrap().restart_policy_text()
    }

    #[test]
    fn a_restart_policy_is_read_and_written_as_docker_run_takes_it() {
        for (policy, name, retries) in [
            ("no", "no", 0),
            ("always", "always", 0),
            ("on-failure", "on-failure", 0),
            ("on-failure:5", "on-failure", 5),
        ] {
            let document = restart_policy_document(policy);
            assert_eq!(document, json!({ "Name": name, "MaximumRetryCount": retries }));
            assert_eq!(text(&json!({ "RestartPolicy": document })), policy);
        }
        assert_eq!(text(&json!({ "RestartPolicy": { "Name": "" } })), "no");
        assert_eq!(text(&json!({})), "no");
    }
}
