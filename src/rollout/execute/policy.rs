//! Restart policies, between `docker run --restart` and the engine's documents.

use serde_json::{Value, json};

/// `always`, `on-failure:5` → the engine's document of it.
pub(super) fn policy_document(policy: &str) -> Value {
    let (name, retries) = policy.split_once(':').unwrap_or((policy, "0"));
    json!({ "Name": name, "MaximumRetryCount": retries.parse::<u64>().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_policy_is_read_as_docker_run_writes_it() {
        assert_eq!(
            policy_document("always"),
            json!({ "Name": "always", "MaximumRetryCount": 0 })
        );
        assert_eq!(
            policy_document("on-failure:5"),
            json!({ "Name": "on-failure", "MaximumRetryCount": 5 })
        );
    }
}
