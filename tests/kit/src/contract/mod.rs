//! The engine rules on which the rollout rests, each a check that runs against the twin and a real engine.

mod engine;
mod events;
mod exec;
mod images;
pub mod lab;
mod names;
mod networks;
mod people;
mod real;
mod records;
mod restarts;
mod steps;
mod stops;
mod volumes;

pub use engine::*;
pub use events::*;
pub use exec::*;
pub use images::*;
pub use names::*;
pub use networks::*;
pub use people::*;
pub use records::*;
pub use restarts::*;
pub use stops::*;
pub use volumes::*;

/// Passes the names of all rules to a macro that makes a test of each, so that one list serves both engines.
#[macro_export]
macro_rules! each_rule {
    ($tests:ident) => {
        $tests! {
            the_engine_reports_its_version,
            the_engine_reports_where_it_stores_images_and_their_size,
            volumes_are_found_by_label_and_keep_their_labels,
            an_engine_remembers_rejections_and_counts_those_of_one_image,
            an_engine_reports_a_stable_host_identity,
            a_name_is_a_mutex,
            a_rename_goes_by_id_and_keeps_the_id,
            a_rename_to_a_taken_name_is_a_conflict,
            a_rename_frees_the_old_name,
            a_rename_to_its_own_name_is_refused_but_not_a_conflict,
            second_start_is_not_an_error,
            abandoned_start_can_be_repeated,
            stop_is_final_and_can_be_repeated,
            stop_of_a_created_container_is_not_an_error,
            a_stopped_container_starts_again,
            a_stop_lets_the_container_drain,
            a_stop_kills_after_the_grace_period,
            a_stop_without_a_grace_period_kills_at_once,
            a_shorter_stop_overrides_a_longer_one,
            stop_continues_after_its_caller_disconnects,
            a_grace_period_ends_after_its_caller_disconnects,
            a_stop_returns_long_before_a_long_drain_ends,
            a_running_container_is_not_removed,
            removal_can_be_repeated,
            a_missing_container_or_image_is_not_found,
            a_restart_policy_is_read_back,
            an_auto_remove_container_vanishes_when_it_stops,
            an_auto_remove_container_has_no_restart_policy,
            an_auto_remove_container_that_cannot_start_vanishes,
            a_container_that_cannot_start_stays_created,
            a_command_that_the_image_lacks_is_named,
            a_container_that_can_no_longer_start_stays_exited_and_says_why,
            a_prune_removes_all_stopped_containers,
            a_crash_shows_in_the_restart_count,
            on_failure_retries_are_counted_and_limited,
            removing_the_restart_policy_keeps_a_crashed_container_down,
            an_exit_shows_its_code,
            a_restart_lets_the_container_drain_and_starts_it_again,
            restart_continues_after_its_caller_disconnects,
            a_restarts_grace_period_ends_after_its_caller_disconnects,
            a_restart_returns_long_before_a_long_drain_ends,
            a_restart_keeps_an_auto_remove_container,
            a_restart_of_a_stopped_container_starts_it,
            a_container_that_ends_during_its_restart_is_started_again,
            a_create_from_an_unknown_image_is_not_found,
            an_invalid_name_is_refused,
            an_image_in_use_is_not_removed,
            a_failed_pull_is_an_error_and_leaves_the_image,
            an_image_is_found_by_reference_and_by_id,
            a_moved_tag_leaves_the_old_image_to_its_containers,
            the_list_includes_stopped_and_created_containers,
            second_connect_is_not_an_error,
            change_of_a_container_is_reported_as_it_happens,
            files_copied_in_before_the_start_are_detected,
            a_link_follows_its_container_and_needs_it_running,
            an_unknown_network_is_reported_at_start,
            env_and_labels_are_read_back_with_the_images_defaults,
            a_running_container_has_an_address,
            a_taken_host_port_is_reported_at_start,
            a_healthcheck_gives_the_engines_verdict,
            healthcheck_results_outlive_the_life_they_belong_to,
            the_last_lines_of_both_streams_are_read_back,
            the_log_of_a_terminal_is_read_back,
            a_log_that_cannot_be_read_back_is_empty,
            exec_shows_what_a_command_prints_and_its_exit_code,
            exec_runs_a_program_without_a_shell,
            exec_continues_after_its_caller_disconnects,
            exec_needs_a_running_container,
            a_kill_is_final,
            a_restart_is_a_new_life_of_the_same_container,
            paused_container_is_up_and_can_be_resumed,
            a_paused_container_drains_when_asked_to_stop,
            a_container_paused_while_it_drains_is_killed_at_its_deadline,
            a_paused_container_can_be_killed_and_removed_by_force,
            changed_settings_are_read_back_without_a_restart,
            connecting_and_disconnecting_a_network_changes_the_addresses,
            a_disconnected_network_stays_disconnected_in_the_next_life,
            a_forced_removal_only_untags_a_running_image,
            a_forced_removal_removes_the_image_of_a_stopped_container,
            a_tag_moves_to_the_newly_tagged_image,
        }
    };
}
