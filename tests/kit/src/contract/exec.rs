//! Commands in running containers.

use delegate_upgrader::engine::Engine;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::lab::Lab;
use super::steps::{PATIENCE, assert_conflict, assert_not_found, created_of, nobody, seconds, started_of};
use crate::twin::Behaviour;

fn script(text: &str) -> Vec<String> {
    ["/bin/sh", "-c", text].map(str::to_owned).into()
}

async fn exit_code<L: Lab>(lab: &L, exec: &str) -> i64 {
    let begun = Instant::now();
    loop {
        if let Some(code) = lab.engine().exec_exit_code(exec).await.expect("exec inspect") {
            return code;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        sleep(Duration::from_millis(50)).await;
    }
}

pub async fn exec_shows_what_a_command_prints_and_its_exit_code<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let id = started_of(lab, "exec", Behaviour::default()).await;
    for (text, printed, code) in [
        ("exit 0", "", 0),
        ("echo one; echo two; exit 3", "one\ntwo\n", 3),
        ("echo 1; echo 2; echo 3; echo 4; exit 0", "2\n3\n4\n", 0),
    ] {
        let exec = engine.create_exec(&id, &script(text)).await.expect("exec create");
        assert_eq!(
            engine.start_exec(&exec).await.expect("exec start"),
            printed,
            "{text}"
        );
        assert_eq!(exit_code(lab, &exec).await, code, "{text}");
    }
}

pub async fn exec_runs_a_program_without_a_shell<L: Lab>(lab: &L) {
    let probe = ["/bin/probe".to_owned()];
    for (name, behaviour, code) in [
        ("well", Behaviour::default(), 0),
        ("ill", Behaviour::never_healthy(), 1),
    ] {
        let id = started_of(lab, name, behaviour).await;
        let exec = lab.engine().create_exec(&id, &probe).await.expect("exec create");
        lab.engine().start_exec(&exec).await.expect("exec start");
        assert_eq!(exit_code(lab, &exec).await, code, "{name}");
    }
}

pub async fn exec_continues_after_its_caller_disconnects<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let id = started_of(lab, "hung", Behaviour::default()).await;
    let exec = engine
        .create_exec(&id, &script("sleep 15; exit 5"))
        .await
        .expect("exec create");
    assert_not_found(&engine.exec_exit_code(&exec).await);
    let abandoned = timeout(seconds(5), engine.start_exec(&exec)).await;
    assert!(abandoned.is_err(), "it takes a while");
    assert_eq!(engine.exec_exit_code(&exec).await, Ok(None));
    assert_eq!(exit_code(lab, &exec).await, 5);
}

pub async fn exec_needs_a_running_container<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let id = created_of(lab, "created-exec", Behaviour::default()).await;
    assert_conflict(&engine.create_exec(&id, &script("exit 0")).await);
    let paused = started_of(lab, "paused-exec", Behaviour::default()).await;
    let pause = crate::twin::OperatorAction::Pause(paused.as_str().to_owned());
    lab.by_hand(pause).await.expect("pause");
    assert_conflict(&engine.create_exec(&paused, &script("exit 0")).await);
    assert_not_found(&engine.create_exec(&nobody(), &script("exit 0")).await);
    assert_not_found(&engine.start_exec(nobody().as_str()).await);
    assert_not_found(&engine.exec_exit_code(nobody().as_str()).await);
}
