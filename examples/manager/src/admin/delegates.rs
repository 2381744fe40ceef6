//! Delegates: listed, made known, forgotten.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};

use super::{Database, Place, Said, joined, with_tags};
use crate::service::support::{Standing, Version};
use crate::tables::table;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Delegates {
    #[command(subcommand)]
    command: Option<DelegatesCommand>,
    #[command(flatten)]
    database: Database,
}

#[derive(Subcommand)]
enum DelegatesCommand {
    /// Make a delegate known before an upgrader asks for it, or change its tags
    Register {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        place: Place,
        /// A tag of the delegate's; may be given several times
        #[arg(long = "tag")]
        tags: Vec<String>,
        /// Its DELEGATE_NAME
        name: String,
    },
    /// Take a delegate that is gone from the list, with its tags
    Forget {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        place: Place,
        /// Its DELEGATE_NAME
        name: String,
    },
}

impl Delegates {
    pub(crate) fn run(&self, now: DateTime<Utc>) -> Said {
        match &self.command {
            None => self.list(now),
            Some(DelegatesCommand::Register {
                database,
                place,
                tags,
                name,
            }) => {
                let (scope, tags) = (place.scope()?, tags.iter().cloned().collect());
                database.change("register delegate", &scope, now, |store| {
                    store.register(&scope, name, &tags, now.timestamp())?;
                    let subject = format!("{name}{}", with_tags(&tags));
                    let said = format!("registered {name} for {scope}{}\n", with_tags(&tags));
                    Ok((subject, said))
                })
            }
            Some(DelegatesCommand::Forget {
                database,
                place,
                name,
            }) => {
                let scope = place.scope()?;
                database.change("forget delegate", &scope, now, |store| {
                    store.forget(&scope, name)?;
                    Ok((name.clone(), format!("forgot {name} for {scope}\n")))
                })
            }
        }
    }

    fn list(&self, now: DateTime<Utc>) -> Said {
        let all = self.database.open()?.delegates()?;
        let mut rows = Vec::new();
        for delegate in &all {
            let upgraded = delegate.auto_upgrade(now);
            let beginning = [
                delegate.name.clone(),
                delegate.scope.to_string(),
                joined(&delegate.tags),
                format!("{upgraded:?}").to_uppercase(),
            ];
            let mut replicas: Vec<_> = delegate
                .current_replicas()
                .map(|replica| {
                    let version = Version::of(&replica.image);
                    let support = version.map_or(String::new(), |version| support(&version, now));
                    [replica.host.clone(), replica.image.clone(), support]
                })
                .collect();
            if replicas.is_empty() {
                replicas.push([(); 3].map(|()| "-".to_owned()));
            }
            for [host, image, support] in replicas {
                let [name, scope, tags, upgraded] = beginning.clone();
                rows.push([name, scope, tags, upgraded, host, image, support]);
            }
        }
        let heading = [
            "NAME",
            "SCOPE",
            "TAGS",
            "AUTO UPGRADE",
            "HOST",
            "IMAGE",
            "SUPPORT",
        ];
        Ok(table(heading, &rows))
    }
}

fn support(version: &Version, now: DateTime<Utc>) -> String {
    match version.standing(now) {
        Standing::Supported => format!("until about {}", version.end_of_support().format("%Y-%m")),
        Standing::EndOfSupport => format!("ended about {}", version.end_of_support().format("%Y-%m")),
        Standing::EndOfLife => format!("end of life about {}", version.end_of_life().format("%Y-%m")),
    }
}
