//! The fault hook of the simulation: it decides which fault each call meets, and when the director must act.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::world::World;
use kit::twin::{Call, Fault};

/// More calls than the longest story needs.
const ENDLESS_CALLS: usize = 1_500_000;

/// An act that the fault hook requests from the director.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Kill(usize),
    Engine,
    Power,
    Person,
    People,
    Manager,
    Clock,
    Crash,
    Hardship,
}

/// Installs the hook that chooses a fault for each call, and what happens to the host at that moment.
pub(super) fn watch_calls(world: &Arc<World>, acts: mpsc::Sender<Act>) {
    let mut random = world.scenario.random.clone().fork();
    let faults = world.scenario.faults.clone();
    let people = world.scenario.people.as_ref().map_or(0, |people| people.often);
    let book = Arc::downgrade(world);
    world.twin.set_faults(move |call: &Call| {
        let Some(world) = book.upgrade() else {
            return Fault::None;
        };
        let mut book = world.book();
        *book.counts.entry("calls".to_owned()).or_default() += 1;
        if call.index > ENDLESS_CALLS {
            world.endless.notify_one();
        }
        let jitter = Fault::Slow(random.millis(0..4));
        if call.client == 0 || book.calm_since.is_some() {
            return if world.scenario.upgraders.len() > 1 {
                jitter
            } else {
                Fault::None
            };
        }
        // There are about twenty reads for each change.
        let rarity = if call.is_write() { 1 } else { 20 };
        for (rate, act) in [
            (faults.kill, Act::Kill(call.client - 1)),
            (faults.engine, Act::Engine),
            (faults.power, Act::Power),
            (faults.person, Act::Person),
            (people, Act::People),
            (faults.manager, Act::Manager),
            (faults.clock, Act::Clock),
            (faults.crash, Act::Crash),
            (faults.hardship, Act::Hardship),
        ] {
            if random.one_in(rate * rarity) {
                // One act at a time; others that come up meanwhile are dropped.
                let _ = acts.try_send(act);
            }
        }
        for (rate, fault) in [
            (faults.error_before, Fault::ErrBefore),
            (faults.error_after, Fault::ErrAfter),
            (faults.lost_request, Fault::Hang),
            (faults.lost_answer, Fault::HangAfter),
            (faults.twice, Fault::Twice),
            (faults.slow, Fault::Slow(random.millis(10..20_000))),
        ] {
            if random.one_in(rate * rarity) {
                let word = match fault {
                    Fault::ErrBefore => "error before",
                    Fault::ErrAfter => "error after",
                    Fault::Hang => "lost request",
                    Fault::HangAfter => "lost answer",
                    Fault::Twice => "twice",
                    _ => "slow",
                };
                *book.counts.entry(format!("fault: {word}")).or_default() += 1;
                if world.aloud {
                    book.lines
                        .push((call.at, format!("FAULT {word} at call {}", call.index)));
                }
                return fault;
            }
        }
        if world.scenario.upgraders.len() > 1 {
            jitter
        } else {
            Fault::None
        }
    });
}
