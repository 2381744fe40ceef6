//! When a replacement may start.

use std::time::Duration;

use super::reader::Reader;
use super::variables::Environment;
use crate::schedule::wave::Wave;
use crate::schedule::window::UpgradeWindow;
use crate::schedule::zone::Zone;

/// When a replacement may start, by the administrator's settings. Running replacements finish at any time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// `UPGRADE_WINDOW`.
    pub window: Option<UpgradeWindow>,
    /// `UPGRADE_DELAY`: how long an image has been seen before it is taken.
    pub delay: Duration,
    /// `UPGRADE_WAVE`: in what time the hosts follow each other after that.
    pub wave: Option<Wave>,
    /// `UPGRADE_NOW_IF_EXPIRED`: neither window nor wave count for a delegate whose version is past its end of life.
    pub now_if_expired: bool,
}

/// Reads these settings. Windows are in this zone.
pub(super) fn timing(reader: &mut Reader, env: &Environment, zone: &Zone) -> Timing {
    let parse = |text: &str| UpgradeWindow::parse(text, zone.clone()).map_err(|error| error.to_string());
    Timing {
        window: reader.read(&env.upgrade_window, parse),
        delay: reader.duration(&env.upgrade_delay, Duration::ZERO),
        wave: reader.read(&env.upgrade_wave, |text| text.parse().map_err(|()| String::new())),
        now_if_expired: reader.flag(&env.upgrade_now_if_expired),
    }
}
