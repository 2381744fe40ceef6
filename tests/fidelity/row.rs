//! One option that an owner may give, and its result.

use serde_json::{Value, json};

use kit::lab::LABEL;

/// The images between which a row is upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    /// The lab's own images, which set little.
    Plain,
    /// Images with their own value for everything that an image can set; the second one has different values.
    Rich,
}

/// One option: the addition to the minimal create body of a delegate.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) images: Images,
    /// The reason why no upgrade can keep it, if so. Such a row is listed but not counted.
    pub(crate) limit: Option<&'static str>,
    /// Networks to connect between create and start, with the endpoint: engines below API 1.44 need this.
    pub(crate) connect: Vec<(String, Value)>,
    pub(crate) patch: Value,
}

impl Row {
    /// An option at the top level of the create body, for a delegate of the plain image.
    pub(crate) fn new(title: &'static str, patch: Value) -> Self {
        Self {
            title,
            images: Images::Plain,
            limit: None,
            connect: Vec::new(),
            patch,
        }
    }

    /// An option in `HostConfig`.
    #[allow(clippy::needless_pass_by_value, reason = "made where it is passed")]
    pub(crate) fn host(title: &'static str, patch: Value) -> Self {
        Self::new(title, json!({ "HostConfig": patch }))
    }

    /// A delegate in this network with this endpoint.
    #[allow(clippy::needless_pass_by_value, reason = "made where it is passed")]
    pub(crate) fn endpoint(title: &'static str, network: &str, endpoint: Value) -> Self {
        let patch = json!({
            "HostConfig": { "NetworkMode": network },
            "NetworkingConfig": { "EndpointsConfig": { network: endpoint } },
        });
        Self::new(title, patch)
    }

    pub(crate) fn rich(mut self) -> Self {
        self.images = Images::Rich;
        self
    }

    pub(crate) fn connected(mut self, network: &str, endpoint: Value) -> Self {
        self.connect.push((network.to_owned(), endpoint));
        self
    }

    pub(crate) fn limit(mut self, why: &'static str) -> Self {
        self.limit = Some(why);
        self
    }

    /// The name of the delegate and of its container.
    pub(crate) fn name(&self, number: usize) -> String {
        let words = self.title.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let words = words.join("-").to_lowercase();
        format!("fid-{number:03}-{}", words.get(..30).unwrap_or(&words))
    }

    /// The whole create body.
    pub(crate) fn body(&self, name: &str, image: &str) -> Value {
        let mut body = json!({
            "Image": image,
            "Env": [format!("DELEGATE_NAME={name}")],
            "Labels": { LABEL: name },
        });
        merge(&mut body, &self.patch);
        body
    }

    /// The keys of an inspect document that the row covers: `Config/Env`, `HostConfig/Memory`, `Endpoint/Aliases`.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut add = |part: &str, fields: &Value| {
            let fields = fields.as_object().into_iter().flatten();
            found.extend(fields.map(|(key, _)| format!("{part}/{key}")));
        };
        let mut config = self.patch.clone();
        if let Some(config) = config.as_object_mut() {
            config.remove("HostConfig");
            config.remove("NetworkingConfig");
        }
        add("Config", &config);
        add("HostConfig", &self.patch["HostConfig"]);
        let endpoints = self.patch["NetworkingConfig"]["EndpointsConfig"].as_object();
        for endpoint in endpoints.into_iter().flatten().map(|(_, endpoint)| endpoint) {
            add("Endpoint", endpoint);
        }
        for (_, endpoint) in &self.connect {
            add("Endpoint", endpoint);
        }
        found
    }

    /// The row's value for one of its keys; for endpoints, the value of the first that has the key.
    pub(crate) fn asked(&self, key: &str) -> Value {
        let (part, key) = key.split_once('/').unwrap_or_default();
        match part {
            "Config" => self.patch[key].clone(),
            "HostConfig" => self.patch[part][key].clone(),
            _ => {
                let endpoints = self.patch["NetworkingConfig"]["EndpointsConfig"].as_object();
                let created = endpoints.into_iter().flatten().map(|(_, endpoint)| endpoint);
                let connected = self.connect.iter().map(|(_, endpoint)| endpoint);
                let mut values = created.chain(connected).map(|endpoint| &endpoint[key]);
                values.find(|value| !value.is_null()).cloned().unwrap_or_default()
            }
        }
    }
}

/// Maps are merged, lists are appended to, everything else is replaced.
fn merge(body: &mut Value, patch: &Value) {
    match (body, patch) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                merge(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(entries), Value::Array(more)) => entries.extend(more.iter().cloned()),
        (slot, value) => *slot = value.clone(),
    }
}
