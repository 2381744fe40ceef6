//! The rows of the decision. `docs/development/rollout.md` is written from the sentences here.

/// Declares `Row` with the sentence of each, table by table: its constant, its title, its rows.
macro_rules! rows {
    ($($table:ident: $title:literal { $(#[doc = $sentence:literal] $row:ident)+ })+) => {
        /// A row of one of the tables of the decision: a state, and what is done about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr)]
        #[strum(serialize_all = "snake_case")]
        pub enum Row { $($(#[doc = $sentence] $row),+),+ }

        impl Row {
            /// All tables in the order in which they are asked: the title of each, and its rows with their sentences.
            pub const TABLES: &[(&str, &[(Self, &str)])] = &[$(($title, &[$((Self::$row, $sentence)),+])),+];

            $(#[doc = concat!("The rows of the table \"", $title, "\".")]
            pub const $table: &[Self] = &[$(Self::$row),+];)+
        }
    };
}
pub(crate) use rows;

rows! {
    GUARDS: "Guards" {
        /// The same call failed or had no effect, and its pause is not over: wait; after ten in a row, rest.
        CallFailed
        /// Docker cannot show a container that may serve, or is about to: wait, and do nothing to any of them.
        NotInspected
        /// The owner opted the delegate out, or it belongs to a Swarm service or another account: rest.
        LeftAlone
        /// Health checks only, unless a replacement has left the delegate without a container that is up: rest.
        HealthOnly
        /// Compose gave it a name that it gives for a moment, and it changed less than two minutes ago: rest.
        ComposeReplaces
        /// This process is the upgrader's candidate, and nothing of its name is up: take the name; a stopped predecessor is named retired first.
        TakeOwnName
    }
    GIVEN_UP: "Failed and withdrawn containers" {
        /// Docker is removing it: wait, for ten minutes at most.
        GivenUpRemoving
        /// It has a restart policy: set it to `no`, so that Docker never starts it again.
        GivenUpPolicy
        /// It is up: ask it to stop; once its stop timeout is over, stop it at once.
        GivenUpStop
        /// It is withdrawn or a trial, and was never started or ended three seconds ago: remove it.
        WithdrawnRemove
        /// It failed, but another one failed later, or a later release serves and is healthy: remove it.
        FailedRemove
        /// It has former settings, and the container in service works and is of no such change, or the delegate is gone: remove it.
        FormerRemove
        /// The exchange of an upgrader by its helper is over: stop the helper and remove it.
        HelperRemove
    }
    OLD: "Old containers behind the one in service" {
        /// Docker is removing the old container: wait, for ten minutes at most.
        OldRemoving
        /// The old container is retired, and the container in service works: name it draining.
        RetiredDrain
        /// The successor in service ended ten seconds ago, or stays unhealthy while the old container or a copy of it can serve: reject it.
        SuccessorReject
        /// The old container drains or crashes, and the successor works, or this process asked before: ask it to stop; after its timeout, at once.
        DrainingStop
        /// The old container has ended, under Compose a while ago, and the container in service works: remove former images beyond `KEEP_IMAGES`, then the container.
        DrainingRemove
        /// Anything else: wait until the container in service works.
        OldWait
    }
    IN_SERVICE: "In service" {
        /// It is a copy that was never started: start it, once two can run at once or nothing else runs.
        CopyStart
        /// It stands for a delegate with `--rm`, and has ended: remove it after ten seconds.
        AutoRemove
        /// The image is being pulled: wait.
        Pulling
        /// The blockers depend on records that the engine keeps, and they were not read just now: read them.
        HoldsUnknown
        /// With `UPGRADE_DELAY` or `UPGRADE_WAVE`, the image is new on this host: note the time.
        FirstSeen
        /// Nothing but time or other containers is in the way, and whether it can be recreated is unknown: find out.
        ObstacleUnknown
        /// The list of blockers begins with containers that finish their tasks: wait.
        EnoughDrains
        /// The list of blockers is not empty: rest, with the first one.
        Blocked
        /// The image was not pulled in this run, though a tag in quarantine may have moved: pull it.
        Pull
        /// Start-first, and whether the host has memory for two is unknown: find out, once others that take it now are done.
        MemoryUnknown
        /// Nothing is in the way: create the candidate.
        Create
    }
    UNHEALTHY: "Unhealthy, with HEALTH_ACTION=restart" {
        /// This process asked for a restart: wait for its end; start a container that Docker stopped and left so.
        RestartInProgress
        /// The last start is not long enough ago: rest.
        RestartBackoff
        /// Docker refused the restart in this run: rest.
        RestartRefused
        /// The Manager is unreachable, most delegates are unhealthy, or others depend on this container: rest; find out what is unknown.
        RestartDeferred
        /// Three checks in a row have failed: restart it.
        Restart
    }
    SIDE_BY_SIDE: "Side by side" {
        /// The container in service is a copy, made from the candidate or beside a candidate that failed: reject the candidate.
        MadeFromCandidate
        /// The candidate is next, and the container in service has ended: name that one draining.
        NextDraining
        /// The candidate replaces another container, has an image that is not wanted, was stopped, or cannot be started here: withdraw it.
        Unwanted
        /// The container in service was changed since the candidate was created: withdraw the candidate.
        ServingChanged
        /// The container in service does not run: wait for 15 seconds, then withdraw the candidate, unless that is a proven upgrader.
        ServingDown
        /// The candidate failed: reject it; stop it first while Docker cannot rename it.
        CandidateReject
        /// The candidate was created with other settings: keep the former ones.
        FormerKeep
        /// The candidate was created, and not compared yet: connect its networks, and compare it with the container in service.
        Prepare
        /// The candidate differs in more than its image: withdraw it.
        Different
        /// Start-first, and the candidate was created: start it, once it is known whether the host has memory for two.
        CandidateStart
        /// Stop-first, and the container in service has tasks: wait for an idle moment, for `UPGRADE_IDLE_WAIT` at most.
        WaitForIdle
        /// Docker is restarting the container in service, whose candidate's turn has come: name the candidate next, then ask that one to stop.
        BetweenLives
        /// Two upgraders cannot run at once, and there is no helper: create it.
        HelperCreate
        /// The helper was created: start it, and wait until it is ready and proven; if it fails, reject the candidate.
        HelperStart
        /// Stop-first, and Docker has not shown that it can start such a container: have it try, and withdraw the candidate if it cannot.
        TryStart
        /// Stop-first, and the candidate was created: name the container in service draining.
        NameDraining
        /// The candidate, or the helper that starts it, is proven: name the container in service retired.
        NameRetired
        /// Anything else: wait until the candidate has proven itself.
        Proving
    }
    NAME_IS_FREE: "The name is free" {
        /// Its owner gave the replaced container another name: withdraw the candidate; if that was never started, wait for the other one's end first.
        Renamed
        /// The old container was changed before the candidate was started: withdraw the candidate.
        OldChanged
        /// This process is the helper, and the candidate was not started: name the retired container draining, which stops it.
        HelperStop
        /// Someone stopped the candidate, and the old container has ended: rest; withdraw a candidate beside an old one that is up.
        FreeStopped
        /// The old container is retired, and the candidate failed or was never started: reject the candidate.
        RetiredReject
        /// The old container is retired, and the candidate works: let the candidate take the name.
        TakeName
        /// The candidate was created, and a container that it needs does not run: rest.
        CompanionMissing
        /// The candidate failed, and an old container is there: start that one if both have ended, and reject the candidate.
        FreeReject
        /// The old container drains, and the candidate was not started, or cannot run beside it: ask the old one to stop.
        FreeStop
        /// The candidate was created: start it, once no failed or withdrawn container that it cannot run beside is up.
        FreeStart
        /// The candidate is proven: let it take the name.
        FreePromote
        /// The candidate failed, and no old container is there: after 15 seconds, recreate the old one from it.
        Recreate
        /// Anything else: wait until the candidate has proven itself.
        FreeProving
    }
    RESTORING: "Restoring" {
        /// The old container runs in a life that nobody asked to stop: give it the name back.
        Restore
        /// The old container finishes its tasks, or is being removed without end, or Docker refused three times to start it: recreate it from itself.
        RecreateOld
        /// Two cannot run at once, and the old container finishes its tasks: ask it to stop, since only a new life can serve.
        RestoreStop
        /// The old container is being removed or restarted, or just ended by itself, or one that it cannot run beside is up: wait.
        RestoreWait
        /// The old container has ended: start it; if the clock was set back, first give it a name with the present second.
        RestoreStart
        /// No container is left that could serve: rest.
        NoContainer
    }
}
