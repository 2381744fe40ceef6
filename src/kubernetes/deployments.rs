//! Lets the driver read the Deployments of a namespace, with the errors of their pods, and patch them. Several processes may
//! patch one Deployment, so each patch names the version that was read; the API server refuses any other.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::cluster::Cluster;
use super::pods::{self, Failing};
use super::settings::ClusterSettings;
use super::{patch, path, read, replica_sets, warnings};
use crate::container::Inspected;
use crate::document::NewSettings;
use crate::host::hold::{Holds, Paused};
use crate::managed::label::SETTINGS;
use crate::managed::{Decision, Found, Object, Orchestrate, Orchestrator, Record, Refusal, Step};
use crate::rollout::reason::Reason;
use crate::schedule::until;
use crate::schedule::wave::Place;
use crate::text::redact::Redactor;
use crate::text::time;

/// How long to wait before reading a condition again that may be false.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How long the last reading counts as current if this process has written nothing since.
const FRESH: Duration = Duration::from_millis(500);
/// How long a new refusal may mean that the API server has just started.
const STARTS: Duration = Duration::from_secs(30);

/// The Deployments of one namespace.
pub struct Deployments {
    cluster: Cluster,
    settings: ClusterSettings,
    namespace: String,
    /// When they were read, unless this process has written something since.
    read_at: Option<Instant>,
    known: HashMap<String, Known>,
    /// Whether listing the pods is forbidden, so that the reasons for their failures are unknown.
    is_blind: bool,
}

/// The state that this process remembers for one Deployment.
#[derive(Default)]
struct Known {
    was_read: bool,
    /// Since when the API server has refused to show it.
    refused_since: Option<Instant>,
    /// The Deployment's id, and the record of an attempt that someone has undone.
    undone: (String, Record),
}

impl Deployments {
    /// Creates the access without reading anything.
    pub fn new(cluster: Cluster, settings: ClusterSettings, namespace: String) -> Self {
        Self {
            cluster,
            settings,
            namespace,
            read_at: None,
            known: HashMap::new(),
            is_blind: false,
        }
    }

    /// Pauses the Deployments, or ends their pause. Returns why one of them is missing, if so.
    ///
    /// # Errors
    /// The reason why this is impossible.
    pub async fn pause(&mut self, paused: Option<&str>) -> Result<Option<Reason>, Refusal> {
        let Found { objects, absent } = self.observe().await?.unwrap_or_default();
        for object in objects {
            let patch = patch::annotate(&object.document, [(patch::PAUSED, paused.map(str::to_owned))]);
            self.patch(&object, &patch).await?;
        }
        Ok(absent.into_iter().next().map(|(_, reason)| reason))
    }

    fn path(&self, name: &str) -> String {
        path("apps/v1", &self.namespace, "deployments", name)
    }

    fn known(&mut self, name: &str) -> &mut Known {
        self.known.entry(name.to_owned()).or_default()
    }

    /// Patches a Deployment. The last reading is outdated afterwards.
    async fn patch(&mut self, object: &Object, patch: &Value) -> Result<Value, Refusal> {
        self.read_at = None;
        let (path, secrets) = (self.path(&object.managed.name), self.secrets(object, patch));
        self.cluster.patch(&path, (patch, &secrets)).await
    }

    /// Hides the variables of a Deployment, and those in a patch of it.
    fn secrets(&self, object: &Object, patch: &Value) -> Redactor {
        let new = read::variables(&patch["spec"]["template"], &self.settings.container);
        Redactor::new(self.settings(object).environment().chain(new.environment()))
    }

    /// Reads one Deployment, or returns why it is missing or unusable.
    async fn read(&mut self, name: &str) -> Result<Result<Object, Reason>, Refusal> {
        let path = self.path(name);
        let mut document = match self.cluster.get(&path).await {
            Ok(document) => document,
            Err(Refusal::NotFound(_)) => return Ok(Err(self.missing(name).await)),
            Err(error) => return self.unread(name, error).map(Err),
        };
        let known = self.known(name);
        known.refused_since = None;
        if !std::mem::replace(&mut known.was_read, true) {
            for warning in warnings::without_effect(&document) {
                warn!(deployment = name, "{warning}");
            }
        }
        if read::may_be_outdated(&document) {
            tokio::time::sleep(SECOND_LOOK).await;
            document = match self.cluster.get(&path).await {
                Ok(document) => document,
                Err(error) => return self.unread(name, error).map(Err),
            };
        }
        let (container, common) = (&self.settings.container, &self.settings.common);
        let read = read::read(
            &document,
            (container, name),
            common.account.as_deref(),
            common.schedule.zone(),
        );
        let mut managed = match read {
            Ok(managed) => managed,
            Err(reason) => return Ok(Err(reason)),
        };
        let (id, undone) = &self.known(name).undone;
        if *id == managed.id && undone.release > managed.record.release {
            managed.record = undone.clone();
        }
        if !managed.tasks.are_complete() || managed.is_in_progress() {
            let failing = self.failing(&document).await;
            let failure = managed.tasks.last_failure.take();
            managed.tasks.last_failure = failure.or(failing.map(|failing| failing.failure));
        }
        Ok(Ok(Object { managed, document }))
    }

    /// Whether someone has undone a later attempt than the recorded one. `kubectl rollout undo` also brings back the annotations of that
    /// time, but the ReplicaSet that was left still has the later record, which the next reading returns.
    async fn was_undone(&mut self, Object { managed, document }: &Object) -> Result<bool, Refusal> {
        let all = match self.replica_sets(document).await {
            Err(Refusal::NotPermitted(_)) => Vec::new(),
            found => found?,
        };
        let found = replica_sets::latest_record(&all, document);
        let is_later = found.release > managed.record.release;
        if is_later {
            self.read_at = None;
            self.known(&managed.name).undone = (managed.id.clone(), found);
        }
        Ok(is_later)
    }

    /// Returns why a Deployment could not be read.
    ///
    /// # Errors
    /// The API server cannot be reached or may just have started, so the Deployment must be read again.
    fn unread(&mut self, name: &str, error: Refusal) -> Result<Reason, Refusal> {
        let known = self.known(name);
        if let Refusal::Failed(_) = error {
            known.refused_since = None;
            return Err(error);
        }
        let since = known.refused_since.get_or_insert_with(Instant::now);
        if known.was_read && since.elapsed() < STARTS {
            // It has no permissions yet right after its start.
            return Err(Refusal::Failed(format!(
                "the API server refuses what it did before, as one that has just started: {error}"
            )));
        }
        let (step, problem) = ("read the Deployment".to_owned(), error.to_string());
        Ok(match error {
            Refusal::NotPermitted(_) => Reason::NotPermitted { step, problem },
            _ => Reason::EngineError { step, problem },
        })
    }

    /// Returns the reason why the Deployment does not exist.
    async fn missing(&self, name: &str) -> Reason {
        let path = path("apps/v1", &self.namespace, "statefulsets", name);
        if self.cluster.get(&path).await.is_ok() {
            return Reason::NotUpgradable {
                kind: "a StatefulSet, whose pods a bad image would hold until someone deletes them",
            };
        }
        Reason::NoDeployment {
            name: name.to_owned(),
            namespace: self.namespace.clone(),
        }
    }

    /// Returns the pod that failed last, if pods may be listed.
    async fn failing(&mut self, document: &Value) -> Option<Failing> {
        let selector = pods::selector(document).filter(|_| !self.is_blind)?;
        match self.list("v1", "pods", &selector).await {
            Ok(pods) => pods::last_failure(&pods, &self.settings.container),
            Err(error) => {
                self.is_blind = matches!(error, Refusal::NotPermitted(_));
                debug!(%error, "cannot list the pods; continuing without their words");
                None
            }
        }
    }

    /// Returns the former settings, which a ReplicaSet has, with their mark.
    async fn former(&self, document: &Value) -> Result<(Inspected, Option<String>), Refusal> {
        let (container, all) = (&self.settings.container, self.replica_sets(document).await?);
        let former = replica_sets::former(&all, document, container).ok_or_else(|| {
            let problem =
                "someone has changed it since, or Kubernetes no longer has the ReplicaSet with the former settings";
            Refusal::Refused(problem.to_owned())
        })?;
        let mark = read::annotation(former, SETTINGS).map(str::to_owned);
        Ok((read::variables(former, container), mark))
    }

    async fn replica_sets(&self, document: &Value) -> Result<Vec<Value>, Refusal> {
        let selector = pods::selector(document).unwrap_or_default();
        self.list("apps/v1", "replicasets", &selector).await
    }

    async fn list(&self, group: &str, kind: &str, selector: &str) -> Result<Vec<Value>, Refusal> {
        let path = path(group, &self.namespace, kind, "");
        let path = format!("{}?labelSelector={selector}", path.trim_end_matches('/'));
        let mut list = self.cluster.get(&path).await?;
        Ok(match list["items"].take() {
            Value::Array(all) => all,
            _ => Vec::new(),
        })
    }

    /// Checks that the API server would keep new settings as they are, and that the former ones could be found again.
    async fn try_settings(&self, object: &Object, patch: &Value, new: &NewSettings) -> Result<(), Refusal> {
        let Object { managed, document } = object;
        self.replica_sets(document).await?;
        if read::count(document, "/spec/revisionHistoryLimit") == Some(0) {
            let problem = "with its revisionHistoryLimit of 0, Kubernetes would forget the former settings";
            return Err(Refusal::Refused(problem.to_owned()));
        }
        let (path, secrets) = (self.path(&managed.name), self.secrets(object, patch));
        let tried = self.cluster.try_patch(&path, (patch, &secrets)).await?;
        let variables = read::variables(&tried["spec"]["template"], &self.settings.container);
        let missing = new.missing_in(&variables);
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::Refused(format!(
            "an admission policy sets {} in another way",
            missing.names()
        )))
    }

    /// Logs the last lines of the failed pod, if they may be read.
    async fn log_last_lines(&mut self, Object { managed, document }: &Object) {
        let Some(failing) = self.failing(document).await else {
            return;
        };
        let deployment = &managed.name;
        let (namespace, container) = (&self.namespace, &self.settings.container);
        for query in failing.log_queries(container) {
            let path = format!("{}/log?{query}", path("v1", namespace, "pods", &failing.pod));
            let Ok(text) = self.cluster.text(&path).await else {
                continue;
            };
            for line in failing.redacted(&text) {
                warn!(deployment, pod = failing.pod, "its log: {line}");
            }
            if !text.trim().is_empty() {
                return;
            }
        }
    }
}

impl Orchestrate for Deployments {
    type Error = Refusal;

    const ORCHESTRATOR: Orchestrator = Orchestrator::Kubernetes;
    const API: &'static str = "the API server of the cluster";
    const ONE_AT_A_TIME: bool = false;

    /// A second reading right after the Manager's answer is unnecessary, since a patch names the version that was read.
    async fn observe(&mut self) -> Result<Option<Found>, Refusal> {
        if self.read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok(None);
        }
        let mut found = Found::default();
        for name in self.settings.common.workload_names.clone() {
            match self.read(&name).await? {
                Ok(object) => found.objects.push(object),
                Err(reason) => found.absent.push((name, reason)),
            }
        }
        self.read_at = Some(Instant::now());
        Ok(Some(found))
    }

    fn holds(&self, object: &Object, image: &str, now: DateTime<Utc>) -> Option<Result<Holds, String>> {
        let annotation = |name: &str| read::annotation(&object.document, name);
        let first_seen = annotation(patch::FIRST_SEEN_AT)
            .filter(|_| annotation(patch::FIRST_SEEN_IMAGE) == Some(image))
            .and_then(time::parse);
        let paused = annotation(patch::PAUSED).filter(|text| !text.eq_ignore_ascii_case("false"));
        Some(Ok(Holds {
            // A pause whose time cannot be parsed has no end.
            pause: paused.map(|text| Paused {
                since: now,
                until: until::parse(text, self.settings.common.schedule.zone()),
                ..Paused::default()
            }),
            first_seen,
            place: Place::of(&object.managed.id, image),
            rejected: Vec::new(),
            image: image.to_owned(),
        }))
    }

    fn lock(
        &self,
        object: &Object,
        decision: &Decision,
        _: DateTime<Utc>,
    ) -> Option<(Reason, Option<DateTime<Utc>>)> {
        let Decision::Act(step) = decision else {
            return None;
        };
        let step = step.words(&object.managed);
        self.settings.dry_run.then_some((Reason::DryRun { step }, None))
    }

    fn settings(&self, object: &Object) -> Inspected {
        read::variables(&object.document["spec"]["template"], &self.settings.container)
    }

    async fn former_settings(&self, object: &Object) -> Result<Inspected, Refusal> {
        Ok(self.former(&object.document).await?.0)
    }

    fn refuses(&self, object: &Object, new: &NewSettings) -> Option<String> {
        let template = &object.document["spec"]["template"];
        let env = &read::container_of(template, &self.settings.container)?["env"];
        let mut env = env.as_array()?.iter();
        let name = env.find_map(|it| {
            let name = it["name"].as_str()?;
            (it.get("valueFrom").is_some() && new.env.contains_key(name)).then_some(name)
        })?;
        Some(format!(
            "{name} comes from a Secret, a ConfigMap or the pod (valueFrom); change it there, and run `kubectl rollout restart`"
        ))
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        warnings::warnings(&object.document)
    }

    async fn apply(&mut self, object: &Object, step: &Step, now: DateTime<Utc>) -> Result<(), Refusal> {
        let Object { managed, document } = object;
        match step {
            Step::Begin { .. } if self.was_undone(object).await? => {
                return Err(Refusal::Conflict("someone has undone an attempt".to_owned()));
            }
            Step::RollBack { .. } => self.log_last_lines(object).await,
            Step::NoteRollback { .. } => {
                let writer = warnings::last_writer(document, &self.settings.container);
                warn!(deployment = managed.name, writer, "someone else wrote its image");
            }
            _ => {}
        }
        let mut patch = patch::patch(object, &self.settings.container, step, now);
        if let Some((new, mark)) = step.new_settings(managed) {
            patch::add_settings(&mut patch, new, Some(&mark));
            self.try_settings(object, &patch, new).await?;
        } else if let (Step::RollBack { .. }, Some(_)) = (step, managed.changed_settings()) {
            let (former, mark) = self.former(document).await?;
            let new = NewSettings::of(&managed.settings.names, &former);
            patch::add_settings(&mut patch, &new, mark.as_deref());
        }
        self.patch(object, &patch).await?;
        Ok(())
    }
}
