//! Warnings about schedules that are allowed but probably not intended. Pure.

/// Warns about a step that does not divide its range: it starts over at the end of the range, which is rarely intended.
/// The classic mistake is `0 */15 * * *`: every 15th hour of a day instead of every 15 minutes.
pub(super) fn uneven_step(pattern: &str) -> Option<String> {
    let fields: Vec<&str> = pattern.split(' ').collect();
    let [.., minute, hour, day, month, weekday] = fields.as_slice() else {
        return None;
    };
    let uneven = |field: &str, range: usize| {
        let step: usize = field.strip_prefix("*/")?.parse().ok()?;
        (step > 0 && !range.is_multiple_of(step)).then_some(step)
    };
    let (step, times) = if let Some(step) = uneven(minute, 60) {
        let minutes: Vec<String> = (0..60)
            .step_by(step)
            .map(|minute| format!("{minute:02}"))
            .collect();
        let noun = if minutes.len() == 1 { "minute" } else { "minutes" };
        (step, format!("{noun} {} of each hour", listed(&minutes)))
    } else {
        let step = uneven(hour, 24)?;
        let minute: u32 = minute.parse().ok()?;
        let hours: Vec<String> = (0..24)
            .step_by(step)
            .map(|hour| format!("{hour:02}:{minute:02}"))
            .collect();
        (step, format!("{} each day", listed(&hours)))
    };
    let meant = if 60 % step == 0 {
        let seconds = if fields.len() == 6 { "0 " } else { "" };
        format!("{seconds}*/{step} * {day} {month} {weekday}")
    } else {
        format!("@every {step}m")
    };
    Some(format!(
        "{pattern:?} runs at {times}; for every {step} minutes write {meant:?}"
    ))
}

/// Joins words into a list: `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [init @ .., last] if !init.is_empty() => format!("{} and {last}", init.join(", ")),
        words => words.concat(),
    }
}
