//! What a person does on the host.

use std::fmt;

/// What is done to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ContainerAct {
    Rename,
    Stop,
    Start,
    Restart,
    Kill,
    Pause,
    Remove,
    UpdateMemory,
    UpdatePolicy,
    NetworkConnect,
    NetworkDisconnect,
    /// The same name is made anew, as `docker compose up --force-recreate` does it.
    Compose,
}

/// Whose container it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Serving,
    Candidate,
    Draining,
    Standby,
}

/// What is done to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ImageAct {
    /// `docker rmi -f` of the old image's tag.
    RemoveOld,
    RemoveNew,
    /// `docker tag` of another image with the old image's tag.
    TagOld,
    TagNew,
}

/// One act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Act {
    Container(ContainerAct, Target),
    Image(ImageAct),
}

impl ContainerAct {
    pub(crate) const ALL: [Self; 12] = [
        Self::Rename,
        Self::Stop,
        Self::Start,
        Self::Restart,
        Self::Kill,
        Self::Pause,
        Self::Remove,
        Self::UpdateMemory,
        Self::UpdatePolicy,
        Self::NetworkConnect,
        Self::NetworkDisconnect,
        Self::Compose,
    ];

    /// Whether it changes a setting, and nothing else.
    pub(crate) fn is_setting(self) -> bool {
        matches!(
            self,
            Self::UpdateMemory | Self::UpdatePolicy | Self::NetworkConnect | Self::NetworkDisconnect
        )
    }

    /// Whether it ends the container, or the container stops serving.
    pub(crate) fn takes_out_of_service(self) -> bool {
        matches!(self, Self::Stop | Self::Kill | Self::Pause | Self::Remove)
    }
}

impl Target {
    pub(crate) const ALL: [Self; 4] = [Self::Serving, Self::Candidate, Self::Draining, Self::Standby];
}

impl ImageAct {
    pub(crate) const ALL: [Self; 4] = [Self::RemoveOld, Self::RemoveNew, Self::TagOld, Self::TagNew];
}

impl Act {
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for target in Target::ALL {
            all.extend(ContainerAct::ALL.map(|act| Self::Container(act, target)));
        }
        all.extend(ImageAct::ALL.map(Self::Image));
        all
    }

    /// What is done to a container.
    pub(crate) fn on_container(self) -> Option<ContainerAct> {
        match self {
            Self::Container(act, _) => Some(act),
            Self::Image(_) => None,
        }
    }
}

impl fmt::Display for ContainerAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rename => "rename",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Remove => "rm",
            Self::UpdateMemory => "update-memory",
            Self::UpdatePolicy => "update-restart",
            Self::NetworkConnect => "network-connect",
            Self::NetworkDisconnect => "network-disconnect",
            Self::Compose => "compose",
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Candidate => "candidate",
            Self::Draining => "draining",
            Self::Standby => "standby",
        })
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(act, target) => write!(f, "{act}-{target}"),
            Self::Image(ImageAct::RemoveOld) => f.write_str("rmi-old"),
            Self::Image(ImageAct::RemoveNew) => f.write_str("rmi-new"),
            Self::Image(ImageAct::TagOld) => f.write_str("tag-old"),
            Self::Image(ImageAct::TagNew) => f.write_str("tag-new"),
        }
    }
}
