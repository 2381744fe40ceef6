//! The commands as they are typed, on a database of their own.

use chrono::{DateTime, TimeDelta, Utc};
use clap::Parser as _;
use delegate_upgrader::manager::DelegateToken;

use crate::service::scope::Scope;
use crate::service::store::Store;

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: crate::Command,
}

struct Site {
    directory: tempfile::TempDir,
    now: DateTime<Utc>,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        drop(Store::create(&directory.path().join("manager.db"), Some("acct")).unwrap());
        Self {
            directory,
            now: "2026-11-21T12:00:00Z".parse().unwrap(),
        }
    }

    fn store(&self) -> Store {
        Store::open(&self.directory.path().join("manager.db")).unwrap()
    }

    /// `manager LINE --database …`
    fn run(&self, line: &str) -> Result<String, String> {
        let database = self.directory.path().join("manager.db");
        let words = std::iter::once("manager").chain(line.split_whitespace());
        let words = words.chain(["--database", database.to_str().unwrap()]);
        let Line { command } = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        command.administer(self.now)
    }
}

#[test]
fn a_new_token_is_told_once_and_nowhere_again() {
    let site = Site::new();
    let text = site.run("token create docker --org o").unwrap();
    let key = *DelegateToken::parse(&text).unwrap().key();
    let stored = site.store().tokens().unwrap().remove(0);
    assert_eq!((stored.key, stored.scope), (key, Scope::Org("o".to_owned())));

    let listed = site.run("token list").unwrap();
    assert_eq!(
        listed,
        "NAME    SCOPE  CREATED           STATE\ndocker  org o  2026-11-21 12:00  in force\n"
    );
    let trail = site.run("audit").unwrap();
    assert!(
        trail.contains("create token  org o  docker") && !trail.contains(text.trim()),
        "{trail}"
    );
    let again = site.run("token create docker").unwrap_err();
    assert!(again.contains("take another name"), "{again}");

    assert_eq!(
        site.run("token revoke docker").unwrap(),
        "the token docker is revoked\n"
    );
    assert!(
        site.run("token list")
            .unwrap()
            .contains("revoked 2026-11-21 12:00")
    );
    for (line, words) in [
        ("token revoke docker", "was revoked before"),
        ("token revoke other", "`manager token list` shows those there are"),
        ("key revoke other", "`manager key list` shows those there are"),
        ("token create x --project p", "--org"),
    ] {
        let error = site.run(line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn a_new_api_key_is_told_once() {
    let site = Site::new();
    let value = site.run("key create ci").unwrap();
    assert_eq!(site.store().api_key(value.trim()).unwrap().unwrap().name, "ci");
    let listed = site.run("key list").unwrap();
    assert!(
        listed.contains("in force") && !listed.contains(value.trim()),
        "{listed}"
    );
}

#[test]
fn an_image_is_published_if_it_could_be_pulled() {
    let site = Site::new();
    assert_eq!(
        site.run("publish r.example/harness/delegate:26.02.1").unwrap(),
        "published r.example/harness/delegate:26.02.1\n"
    );
    site.run("publish --upgrader r.example/upgrader:2").unwrap();
    assert!(site.run("publish harness/delegate:").is_err());
    assert!(site.run("publish --at http://127.0.0.1:1 a:1").is_err());
    let store = site.store();
    assert_eq!(
        store.latest().unwrap().image.as_deref(),
        Some("r.example/harness/delegate:26.02.1")
    );
    assert_eq!(
        store.published_upgrader().unwrap().as_deref(),
        Some("r.example/upgrader:2")
    );
}

#[test]
fn overrides_are_set_listed_and_ended() {
    let mut site = Site::new();
    assert_eq!(
        site.run("override set a:1 --org o --days 2").unwrap(),
        "a:1 for org o, until 2026-11-23 12:00\n"
    );
    assert_eq!(
        site.run("override set a:2 --tag x --tag b --till-next-release")
            .unwrap(),
        "a:2 for account with the tags b,x, until 2027-05-20 12:00 or the next release; \
         no delegate with the tags b, x is known for account\n"
    );
    let error = site.run("override set a:1 --days 181").unwrap_err();
    assert!(error.contains("1 to 180"), "{error}");
    site.run("publish a:3").unwrap();
    assert_eq!(
        site.run("override list").unwrap(),
        "SCOPE    TAGS  IMAGE  UNTIL\n\
         account  b,x   a:2    over\n\
         org o    -     a:1    2026-11-23 12:00\n"
    );
    site.now += TimeDelta::days(2);
    assert!(site.run("override list").unwrap().ends_with("a:1    over\n"));
    let error = site.run("override delete --org o --tag x").unwrap_err();
    assert!(error.ends_with("it has one without tags"), "{error}");
    site.run("override delete --org o").unwrap();
    site.run("override delete --tag b --tag x").unwrap();
    assert_eq!(site.store().overrides().unwrap(), []);
}

#[test]
fn delegates_are_listed_with_their_versions_and_who_looks_after_them() {
    let site = Site::new();
    let now = site.now.timestamp();
    let store = site.store();
    store
        .stamp(
            &Scope::Account,
            "blue",
            "h1",
            "harness/delegate:26.04.1",
            now - 5_401,
        )
        .unwrap();
    for (host, image) in [
        ("h1", "harness/delegate:26.10.1"),
        ("h2", "harness/delegate:26.04.1"),
        ("h3", "harness/delegate:26.01.1.minimal"),
        ("h4", "own/build:latest"),
    ] {
        store.stamp(&Scope::Account, "blue", host, image, now).unwrap();
    }
    assert_eq!(
        site.run("delegates register green --org o --tag linux").unwrap(),
        "registered green for org o with the tags linux\n"
    );
    assert_eq!(
        site.run("delegates").unwrap(),
        "NAME   SCOPE    TAGS   AUTO UPGRADE  HOST  IMAGE                             SUPPORT\n\
         blue   account  -      ON            h1    harness/delegate:26.10.1          until about 2027-04\n\
         blue   account  -      ON            h2    harness/delegate:26.04.1          ended about 2026-10\n\
         blue   account  -      ON            h3    harness/delegate:26.01.1.minimal  end of life about 2026-09\n\
         blue   account  -      ON            h4    own/build:latest\n\
         green  org o    linux  DETECTING     -     -                                 -\n"
    );
    let who = super::user();
    let trail = site.run("audit").unwrap();
    let trail: Vec<Vec<&str>> = trail
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let at = "2026-11-21 12:00";
    assert_eq!(
        trail,
        [
            vec!["TIME", "ACTOR", "ACTION", "SCOPE", "SUBJECT"],
            vec![
                "2026-11-21 10:29",
                "SYSTEM",
                "first check-in",
                "account",
                "blue on h1 with harness/delegate:26.04.1"
            ],
            vec![
                at,
                "SYSTEM",
                "upgrade delegate",
                "account",
                "blue on h1 from harness/delegate:26.04.1 to harness/delegate:26.10.1",
            ],
            vec![
                at,
                &who,
                "register delegate",
                "org o",
                "green with the tags linux"
            ],
        ]
    );
}

#[test]
fn a_delegate_that_is_gone_can_be_forgotten() {
    let site = Site::new();
    site.store()
        .stamp(&Scope::Account, "blue", "h1", "a:1", 0)
        .unwrap();
    site.run("delegates register blue --org o").unwrap();
    assert_eq!(
        site.run("delegates forget blue").unwrap(),
        "forgot blue for account\n"
    );
    let [left] = site.store().delegates().unwrap().try_into().unwrap();
    assert_eq!(left.scope, Scope::Org("o".to_owned()));
    let error = site.run("delegates forget blue").unwrap_err();
    assert_eq!(
        error,
        "there is no delegate blue for the scope account; `manager delegates` shows those there are"
    );
    site.run("delegates forget blue --org o").unwrap();
    assert_eq!(site.store().delegates().unwrap(), []);
}
