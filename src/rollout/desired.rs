//! The image that a delegate should run, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Member;
use super::reason::Reason;
use crate::container::{ImageId, Request};
use crate::document::NewSettings;
use crate::image::ImageReference;

/// Which image a delegate should run.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// Finish the replacement in progress, and start no other, for this reason.
    Keep(Reason),
    /// This image.
    Image {
        /// The target.
        reference: ImageReference,
        /// The id behind the reference, known once it was pulled.
        id: Option<ImageId>,
        /// Why this image is wanted.
        intent: Intent,
    },
}

impl Desired {
    /// The image, its id, and why it is wanted.
    pub(crate) fn wanted(&self) -> Option<(&ImageReference, Option<&ImageId>, &Intent)> {
        match self {
            Self::Image {
                reference,
                id,
                intent,
            } => Some((reference, id.as_ref(), intent)),
            Self::Keep(_) => None,
        }
    }

    /// The image that should run, if it differs from the running one, or why it is unknown.
    pub(crate) fn published(&self) -> Result<Option<String>, String> {
        match self {
            Self::Image { reference, .. } => Ok(Some(reference.to_string())),
            Self::Keep(Reason::AwaitingSchedule { published }) => Ok(published.clone()),
            Self::Keep(Reason::HeldBack { image, .. } | Reason::NotPinned { image }) => {
                Ok(Some(image.clone()))
            }
            Self::Keep(reason @ Reason::AwaitingAnswer { .. }) => Err(reason.to_string()),
            Self::Keep(reason) if reason.is_failure() => Err(reason.to_string()),
            Self::Keep(_) => Ok(None),
        }
    }

    /// Whether a candidate has the wanted image. If that is unknown, the replacement is finished.
    pub(super) fn wants(&self, candidate: &Member) -> bool {
        match self {
            // It has the image of the container in service, and an operator's settings.
            _ if candidate.reconfigured.is_some() => true,
            // Another process rolls back from it.
            Self::Image { reference, id, .. } if candidate.was_rolled_back_from(reference, id.as_ref()) => {
                true
            }
            Self::Image { id: Some(id), .. } => *id == candidate.image_id,
            Self::Image { reference, .. } => candidate.runs(reference),
            Self::Keep(Reason::UpToDate { .. } | Reason::SameImage { .. }) => {
                candidate.rolled_back_from.is_some()
            }
            Self::Keep(_) => true,
        }
    }
}

/// Why another image is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Intent {
    /// It is published, and no scheduled run has started since this process did: it is only reported.
    #[default]
    Report,
    /// It is published.
    Upgrade,
    /// An operator wants an upgrade despite earlier rejections: `retry`.
    Retry(Request),
    /// An operator returns to the previous image: `rollback`.
    Rollback(Request),
    /// An operator wants the same image with other settings: `reconfigure`. The ids of the containers to be replaced, or of the
    /// orchestrators' workloads, and what each gets.
    Reconfigure(Request, Arc<BTreeMap<String, NewSettings>>),
}

impl Intent {
    /// The intent of this name, with the operator's request.
    pub(crate) fn named(name: &str, request: Request) -> Self {
        match name {
            "retry" => Self::Retry(request),
            "rollback" => Self::Rollback(request),
            "reconfigure" => Self::Reconfigure(request, Arc::default()),
            _ => Self::Upgrade,
        }
    }

    /// Whether an operator requested it.
    pub(crate) fn is_requested(&self) -> bool {
        self.request().is_some()
    }

    /// The operator's request, if there is one.
    pub fn request(&self) -> Option<&Request> {
        match self {
            Self::Report | Self::Upgrade => None,
            Self::Retry(request) | Self::Rollback(request) | Self::Reconfigure(request, _) => Some(request),
        }
    }

    /// The settings that an operator wants for the container or workload with this id.
    pub(crate) fn new_settings(&self, id: &str) -> Option<&NewSettings> {
        match self {
            Self::Reconfigure(_, all) => all.get(id),
            _ => None,
        }
    }
}
