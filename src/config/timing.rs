//! When a replacement may start.

use std::time::Duration;

use super::alerts::{AlertHold, alert_hold};
use super::reader::Reader;
use super::variables::Environment;
use crate::schedule::wave::Wave;
use crate::schedule::window::UpgradeWindow;
use crate::schedule::zone::Zone;

/// When a replacement may start according to the settings. Running replacements finish at any time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// `UPGRADE_WINDOW`.
    pub window: Option<UpgradeWindow>,
    /// `UPGRADE_DELAY`: how long ago this host must have first seen an image before it takes it.
    pub delay: Duration,
    /// `UPGRADE_WAVE`: how a new image spreads across the hosts after that delay.
    pub wave: Option<Wave>,
    /// `UPGRADE_SOAK`: how long a replica runs the new image before the next one gets it.
    pub soak: Duration,
    /// `HOLD_ON_ALERTS` and the settings beside it.
    pub alerts: Option<AlertHold>,
    /// `UPGRADE_NOW_IF_EXPIRED`: a delegate whose version is past its end of life waits for neither window nor wave.
    pub now_if_expired: bool,
}

/// Reads these settings. The windows are in this time zone.
pub(super) fn timing(reader: &mut Reader, env: &Environment, zone: &Zone) -> Timing {
    let parse = |text: &str| UpgradeWindow::parse(text, zone.clone());
    // Nobody waits for an image for seconds.
    if let Some(days) = env.upgrade_delay.get().and_then(|text| text.parse::<u16>().ok())
        && days > 0
    {
        let text = format_args!("a number alone is seconds; for days write {days}d");
        reader.problems.warn(&env.upgrade_delay, text);
    }
    Timing {
        window: reader.read(&env.upgrade_window, parse),
        delay: reader.duration(&env.upgrade_delay, Duration::ZERO),
        wave: reader.read(&env.upgrade_wave, |text| text.parse().map_err(|()| String::new())),
        soak: reader.duration(&env.upgrade_soak, Duration::ZERO),
        alerts: alert_hold(reader, env),
        now_if_expired: reader.flag(&env.upgrade_now_if_expired),
    }
}
