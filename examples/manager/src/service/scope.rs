//! The account, one of its organisations, or a project of one: what tokens, overrides and delegates belong to.

use std::fmt;

/// A place in the account.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    #[default]
    Account,
    Org(String),
    Project {
        org: String,
        project: String,
    },
}

impl Scope {
    /// From the two identifiers of a request or a command line, where empty is as good as none.
    pub(crate) fn new(org: Option<&str>, project: Option<&str>) -> Result<Self, String> {
        let given = |identifier: Option<&str>| identifier.filter(|text| !text.is_empty()).map(str::to_owned);
        match (given(org), given(project)) {
            (None, None) => Ok(Self::Account),
            (Some(org), None) => Ok(Self::Org(org)),
            (Some(org), Some(project)) => Ok(Self::Project { org, project }),
            (None, Some(project)) => Err(format!(
                "the project {project:?} is given without its organisation: a project belongs to one, give both"
            )),
        }
    }

    pub(crate) fn org(&self) -> Option<&str> {
        match self {
            Self::Account => None,
            Self::Org(org) | Self::Project { org, .. } => Some(org),
        }
    }

    pub(crate) fn project(&self) -> Option<&str> {
        match self {
            Self::Account | Self::Org(_) => None,
            Self::Project { project, .. } => Some(project),
        }
    }

    /// The next higher one.
    fn above(&self) -> Option<Self> {
        match self {
            Self::Account => None,
            Self::Org(_) => Some(Self::Account),
            Self::Project { org, .. } => Some(Self::Org(org.clone())),
        }
    }

    /// This one, then those above it, up to the account.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), Self::above)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("account"),
            Self::Org(org) => write!(f, "org {org}"),
            Self::Project { org, project } => write!(f, "project {org}/{project}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_up_goes_from_the_project_to_the_account() {
        let project = Scope::new(Some("o"), Some("p")).unwrap();
        let way: Vec<String> = project.and_above().map(|scope| scope.to_string()).collect();
        assert_eq!(way, ["project o/p", "org o", "account"]);
        assert_eq!(Scope::Account.and_above().count(), 1);
    }

    #[test]
    fn empty_is_as_good_as_none_and_a_project_needs_its_organisation() {
        assert_eq!(Scope::new(Some(""), Some("")), Ok(Scope::Account));
        assert_eq!(Scope::new(Some("o"), Some("")), Ok(Scope::Org("o".to_owned())));
        let error = Scope::new(None, Some("shop")).unwrap_err();
        assert!(
            error.contains("shop") && error.contains("organisation"),
            "{error}"
        );
    }
}
