//! Overrides of the delegate's image: set, listed, ended.

use chrono::{DateTime, Utc};
use clap::Subcommand;

use super::{Database, Place, Said, joined, time, with_tags};
use crate::service::resolve::Wanted;
use crate::service::store::in_words;
use crate::tables::table;

#[derive(Subcommand)]
pub(crate) enum Override {
    /// Set the one of a scope, or the one of a scope's delegates with some tags; it takes the place of the last
    Set {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        place: Place,
        /// For delegates with this tag; may be given several times, they need all of them
        #[arg(long = "tag")]
        tags: Vec<String>,
        /// It ends when another image is published
        #[arg(long)]
        till_next_release: bool,
        /// It ends after this many days, 180 at most and if nothing is said
        #[arg(long)]
        days: Option<String>,
        /// The image
        image: String,
    },
    /// All there are, and whether they still hold
    List {
        #[command(flatten)]
        database: Database,
    },
    /// End the one of exactly this scope and these tags
    Delete {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        place: Place,
        #[arg(long = "tag")]
        tags: Vec<String>,
    },
}

impl Override {
    pub(crate) fn run(&self, now: DateTime<Utc>) -> Said {
        match self {
            Self::Set {
                database,
                place,
                tags,
                till_next_release,
                days,
                image,
            } => {
                let wanted = Wanted {
                    scope: place.scope()?,
                    tags: tags.iter().cloned().collect(),
                    image: image.clone(),
                    till_next_release: *till_next_release,
                    days: days.clone(),
                };
                database.change("set override", &wanted.scope.clone(), now, |store| {
                    let set = wanted.into_override(&store.latest()?, now.timestamp())?;
                    store.set_override(&set)?;
                    let (image, tags) = (&set.image, with_tags(&set.tags));
                    let till = if set.till_next_release {
                        " or the next release"
                    } else {
                        ""
                    };
                    let until = format!("until {}{till}", time(set.valid_until));
                    let subject = format!("{image}{tags}, {until}");
                    let unknown = store.without_delegates(&set.scope, &set.tags)?;
                    Ok((
                        subject,
                        format!("{image} for {}{tags}, {until}{unknown}\n", set.scope),
                    ))
                })
            }
            Self::List { database } => {
                let store = database.open()?;
                let (latest, all) = (store.latest()?, store.overrides()?);
                let rows: Vec<_> = all
                    .iter()
                    .map(|found| {
                        let until = time(found.valid_until);
                        let until = match (found.holds(&latest, now.timestamp()), found.till_next_release) {
                            (false, _) => "over".to_owned(),
                            (true, false) => until,
                            (true, true) => format!("{until} or the next release"),
                        };
                        [
                            found.scope.to_string(),
                            joined(&found.tags),
                            found.image.clone(),
                            until,
                        ]
                    })
                    .collect();
                Ok(table(["SCOPE", "TAGS", "IMAGE", "UNTIL"], &rows))
            }
            Self::Delete {
                database,
                place,
                tags,
            } => {
                let (scope, tags) = (place.scope()?, tags.iter().cloned().collect());
                database.change("delete override", &scope, now, |store| {
                    store.delete_override(&scope, &tags)?;
                    let said = format!("deleted the override for {scope}{}\n", with_tags(&tags));
                    Ok((in_words(&tags), said))
                })
            }
        }
    }
}
