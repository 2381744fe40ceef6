//! An engine's reports of events of its containers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delegate_upgrader::engine::{Engine, Happening};
use tokio::time::{Instant, sleep};

use super::lab::Lab;
use super::steps::{PATIENCE, created_of, seconds};
use crate::twin::{Behaviour, OperatorAction};

pub async fn change_of_a_container_is_reported_as_it_happens<L: Lab>(lab: &L) {
    let id = created_of(lab, "watched", Behaviour::default()).await;
    let named = id.as_str().to_owned();
    let told = Mutex::new(0);
    let tell = |happening: Happening<'_>| {
        if matches!(happening, Happening::Container { id: of, .. } if of == id.as_str()) {
            *told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    };
    let act = async |act: OperatorAction| {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        lab.by_hand(act).await.expect("a command");
    };
    let is_told = async |patience: Duration| {
        let begun = Instant::now();
        while *told.lock().unwrap_or_else(PoisonError::into_inner) == 0 && begun.elapsed() < patience {
            sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed() < patience
    };
    let acts = async {
        // The watch begins with this future, and nothing shows when the engine has started it.
        for number in 1.. {
            assert!(number < 30, "a rename is never told");
            act(OperatorAction::Rename(
                named.clone(),
                lab.name(&format!("renamed{number}")),
            ))
            .await;
            if is_told(seconds(1)).await {
                break;
            }
        }
        for next in [
            OperatorAction::Start,
            OperatorAction::Kill,
            OperatorAction::Remove,
        ] {
            let next = next(named.clone());
            let what = format!("{next:?}");
            act(next).await;
            assert!(is_told(PATIENCE).await, "{what}");
        }
    };
    tokio::select! {
        ended = lab.engine().watch(tell) => panic!("nothing is told any more: {ended:?}"),
        () = acts => {}
    }
}
