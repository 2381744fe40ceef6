//! The document of an upgrader's helper: a copy of the upgrader's, without the parts that only one container can have.

use serde_json::{Value, json};

use super::networks::shares_namespace;
use crate::container::{Inspected, LISTEN_ADDR_VARIABLE, restart_policy_document};

/// Any free port on the loopback address: in the host's network the upgrader's own port must become free when it ends.
const NO_PORT: &str = "127.0.0.1:0";

/// Returns the document from which to create this upgrader's helper.
pub fn of_helper(upgrader: &Inspected) -> Inspected {
    let mut helper = upgrader.clone();
    // However its process ends, the helper must restart to finish the exchange.
    let policy = restart_policy_document("unless-stopped");
    helper.replace("/HostConfig/RestartPolicy", policy);
    helper.replace("/HostConfig/PortBindings", json!({}));
    helper.replace("/HostConfig/PublishAllPorts", Value::from(false));
    helper.replace("/Config/MacAddress", Value::from(""));
    // The health check would use that port.
    helper.replace("/Config/Healthcheck", json!({ "Test": ["NONE"] }));
    helper.replace_in_each("/NetworkSettings/Networks", "IPAMConfig", &Value::Null);
    if helper.network_mode() == "host" || shares_namespace(helper.network_mode()) {
        let others = helper
            .environment()
            .filter(|(name, _)| *name != LISTEN_ADDR_VARIABLE);
        let mut environment: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
        environment.push(format!("{LISTEN_ADDR_VARIABLE}={NO_PORT}"));
        helper.replace("/Config/Env", Value::from(environment));
    }
    helper
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_shares_no_exclusive_resources() {
        let document = |mode: &str| {
            let document = json!({
                "Id": "0123",
                "Config": {
                    "Env": ["LISTEN_ADDR=0.0.0.0:9464", "SELF_UPGRADE=true"],
                    "MacAddress": "02:42:ac:11:00:02",
                    "Healthcheck": { "Test": ["CMD", "/delegate-upgrader", "healthcheck"] },
                    "User": "65532",
                },
                "HostConfig": {
                    "NetworkMode": mode,
                    "PortBindings": { "9464/tcp": [{ "HostIp": "", "HostPort": "9464" }] },
                    "PublishAllPorts": true,
                    "RestartPolicy": { "Name": "always", "MaximumRetryCount": 0 },
                    "Binds": ["/var/run/docker.sock:/var/run/docker.sock"],
                },
                "NetworkSettings": { "Networks": {
                    "team/net": { "IPAMConfig": { "IPv4Address": "172.30.0.9" }, "Aliases": ["upgrader"] },
                } },
            });
            Inspected::new(document).expect("a document")
        };
        let helper = of_helper(&document("team/net"));
        assert!(super::super::single_instance_reasons(&helper).is_empty());
        assert_eq!(helper.env(LISTEN_ADDR_VARIABLE), Some("0.0.0.0:9464"));
        assert_eq!(helper.restart_policy_text(), "unless-stopped");
        let expected = of_helper(&helper);
        assert_eq!(helper, expected, "a helper needs no change");
        assert_eq!(helper.list("/HostConfig/Binds").len(), 1);
        for mode in ["host", "container:other"] {
            let helper = of_helper(&document(mode));
            assert_eq!(helper.env(LISTEN_ADDR_VARIABLE), Some(NO_PORT), "{mode}");
            assert_eq!(helper.environment().count(), 2);
        }
    }
}
