//! An operator's actions on a real engine, carried out as the docker command does it.

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerUpdateBody, NetworkConnectRequest, NetworkDisconnectRequest, RestartPolicy,
    RestartPolicyNameEnum,
};
use bollard::query_parameters::{
    KillContainerOptions, RemoveContainerOptions, RemoveImageOptions, RenameContainerOptions, TagImageOptions,
};
use delegate_upgrader::engine::{DockerEngine, Engine};

use crate::twin::OperatorAction;

/// Carries out the action on the engine; the error is the engine's answer.
pub(super) async fn by_hand(
    docker: &Docker,
    engine: &DockerEngine,
    action: OperatorAction,
) -> Result<(), String> {
    if let OperatorAction::Create(name, body) = action {
        let created = engine.create(&name, None, &body).await;
        return created.map(|_| ()).map_err(|error| error.to_string());
    }
    obey(docker, action).await.map_err(|error| error.to_string())
}

async fn obey(docker: &Docker, action: OperatorAction) -> Result<(), Error> {
    match action {
        OperatorAction::Remove(name) => {
            let force = RemoveContainerOptions {
                force: true,
                ..Default::default()
            };
            docker.remove_container(&name, Some(force)).await
        }
        OperatorAction::Rename(from, to) => {
            docker
                .rename_container(&from, RenameContainerOptions { name: to })
                .await
        }
        OperatorAction::Stop(name) => docker.stop_container(&name, None).await,
        OperatorAction::Start(name) => docker.start_container(&name, None).await,
        OperatorAction::Restart(name) => docker.restart_container(&name, None).await,
        OperatorAction::Kill(name) => {
            docker
                .kill_container(&name, Some(KillContainerOptions::default()))
                .await
        }
        OperatorAction::Pause(name) => docker.pause_container(&name).await,
        OperatorAction::Unpause(name) => docker.unpause_container(&name).await,
        OperatorAction::SetMemory(name, bytes) => {
            let change = ContainerUpdateBody {
                memory: i64::try_from(bytes).ok(),
                ..Default::default()
            };
            docker.update_container(&name, change).await
        }
        OperatorAction::SetRestartPolicy(name, policy) => {
            let policy = RestartPolicy {
                name: policy.parse::<RestartPolicyNameEnum>().ok(),
                maximum_retry_count: Some(0),
            };
            let change = ContainerUpdateBody {
                restart_policy: Some(policy),
                ..Default::default()
            };
            docker.update_container(&name, change).await
        }
        OperatorAction::Connect(name, network) => {
            let request = NetworkConnectRequest {
                container: name,
                endpoint_config: None,
            };
            docker.connect_network(&network, request).await
        }
        OperatorAction::Disconnect(name, network) => {
            let request = NetworkDisconnectRequest {
                container: name,
                force: None,
            };
            docker.disconnect_network(&network, request).await
        }
        OperatorAction::RemoveImage(image) => {
            let force = RemoveImageOptions {
                force: true,
                ..Default::default()
            };
            let removed = docker.remove_image(&image, Some(force), None).await;
            removed.map(|_| ())
        }
        OperatorAction::Tag(image, reference) => {
            let (repo, tag) = reference.rsplit_once(':').expect("a tag");
            let to = TagImageOptions {
                repo: Some(repo.to_owned()),
                tag: Some(tag.to_owned()),
            };
            docker.tag_image(&image, Some(to)).await
        }
        OperatorAction::Create(..) | OperatorAction::PruneContainers | OperatorAction::PruneImages => {
            panic!("no rule does {action:?} on a real engine")
        }
    }
}
