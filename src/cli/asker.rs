//! `--by` and `--reason`: who asks for a change, and why.

use clap::Args;

use crate::container::Request;

/// The options of the commands that change something.
#[derive(Debug, Args)]
pub(super) struct Asker {
    /// The person who asks, for the records (default: the user of sudo or of the session)
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why, for the records
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl From<Asker> for Request {
    fn from(Asker { by, reason }: Asker) -> Self {
        // An account that several people share, or that has no name, does not say who asks.
        let is_person = |name: &String| name != "root" && name.contains(char::is_alphabetic);
        let users = ["SUDO_USER", "USER", "LOGNAME"].into_iter();
        let user = || users.filter_map(|name| std::env::var(name).ok()).find(is_person);
        Self::new(by.or_else(user).as_deref(), reason.as_deref())
    }
}
