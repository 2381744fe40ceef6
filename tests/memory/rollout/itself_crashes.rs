//! The upgrader, its successor or their helper crashes at every call of their exchange.

use std::sync::Arc;

use delegate_upgrader::container::Role;
use kit::twin::{Behaviour, Call, Fault, Operation};
use serde_json::Value;

use super::faults::stride;
use super::host::{OWN_LISTENER, auto_remove};
use super::upgraders::{
    EXCHANGE, FIRST, NAME, REMOVAL, SECOND, World, assert_at_rest, cannot_run_twice, ready,
    vanishes_and_cannot_run_twice,
};

/// A crash between two writes leaves the host as a crash at one of them does, so the writes suffice for a long story.
fn is_write(call: &Call) -> bool {
    call.operation.is_write()
}

/// Each counted call of the exchange is the last one of the process that makes it, which crashes before or after it. In
/// the end one of the images runs: the last of them if nothing crashes.
async fn crash_at_each_call(
    second: impl Fn() -> Behaviour,
    change: fn(&mut Value),
    images: &[&str],
    is_counted: fn(&Call) -> bool,
) {
    let acts: fn(Role) -> bool = match images {
        // The image fails when it has the port.
        [FIRST] => |role| matches!(role, Role::Helper { .. }),
        _ => |_| true,
    };
    let mut clean = World::with(second(), change);
    clean.acts = acts;
    clean.run_for(EXCHANGE).await;
    assert_at_rest(&clean, images[images.len() - 1], "clean");
    let calls = clean.host.twin.calls();
    let created = calls.iter().position(|call| call.operation == Operation::Create);
    let last = calls.iter().rposition(is_write);
    let (created, last) = (created.expect("a candidate"), last.expect("it is a write"));
    let (mut points, mut extinct) = (0, 0);
    let during = calls.iter().enumerate().take(last + 2).skip(created - 1);
    for (index, call) in during.filter(|(_, call)| is_counted(call)).step_by(stride(2)) {
        for fault in [Fault::Hang, Fault::HangAfter] {
            let story = format!("{fault:?} at call {index}: {call:?}");
            let mut world = World::with(second(), change);
            world.acts = acts;
            let crash = Arc::clone(&world.crash);
            world.host.twin.set_faults(move |call| {
                if call.index != index {
                    return Fault::None;
                }
                *crash.lock().unwrap() = Some(call.client);
                fault.clone()
            });
            world.run_for(EXCHANGE).await;
            if world.is_extinct {
                extinct += 1;
                continue;
            }
            if world.states().iter().any(|(_, state, _)| state == "removing") {
                world.run_for(REMOVAL).await;
            }
            let states = world.states();
            let runs = |image: &&&str| states.iter().any(|(name, _, of)| name == NAME && of == **image);
            let image = images.iter().find(runs);
            let image = image.unwrap_or_else(|| panic!("{story}: {states:?}"));
            assert_at_rest(&world, image, &story);
            points += 1;
        }
    }
    println!("{points} crashes, and {extinct} that left no upgrader");
    assert!(points > 0);
}

#[tokio::test(start_paused = true)]
async fn finishes_exchange_after_crash_at_any_call() {
    crash_at_each_call(ready, |_| (), &[SECOND], |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn helper_finishes_exchange_after_crash_at_any_write() {
    crash_at_each_call(ready, cannot_run_twice, &[SECOND], is_write).await;
}

/// The new upgrader is never ready, so the exchange is undone.
#[tokio::test(start_paused = true)]
async fn helper_undoes_exchange_after_crash_at_any_write() {
    let never = || Behaviour {
        port: OWN_LISTENER.port(),
        ..Behaviour::never_healthy()
    };
    crash_at_each_call(never, cannot_run_twice, &[FIRST], is_write).await;
}

/// Nothing restarts a container with `--rm`. If another upgrader is left, the exchange is finished or undone.
#[tokio::test(start_paused = true)]
async fn leaves_one_upgrader_with_rm_after_crash_at_any_write() {
    crash_at_each_call(ready, auto_remove, &[FIRST, SECOND], is_write).await;
    crash_at_each_call(ready, vanishes_and_cannot_run_twice, &[FIRST, SECOND], is_write).await;
}
