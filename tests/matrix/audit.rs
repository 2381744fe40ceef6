//! Whether the audit log has each event once, whichever process was killed, and when.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// The errors in the log at the end of a point. `in_service` is the serving image, `new` the published one, and
/// `is_rejected` whether a rejected container of it is kept.
pub(crate) fn wrongs(path: &Path, in_service: Option<&str>, new: &str, is_rejected: bool) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let records = text.lines().map(serde_json::from_str::<Value>);
    let Ok(records) = records.collect::<Result<Vec<_>, _>>() else {
        return vec![format!("the audit log has a line that is not a record:\n{text}")];
    };
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    for record in &records {
        *ids.entry(record["id"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let count = |action: &str| {
        let of_new = |record: &&Value| record["action"] == action && record["to"] == new;
        records.iter().filter(of_new).count()
    };
    let (upgraded, rejected) = (count("upgraded"), count("rejected"));
    let restored = records
        .iter()
        .filter(|record| record["action"] == "restored")
        .count();
    let mut wrongs = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrongs.push(format!("audit log: {what}:\n{text}"));
        }
    };
    let twice = ids.values().any(|count| *count > 1);
    expect(!twice, "an outcome is recorded twice".to_owned());
    // The new image may have been upgraded to and rejected after that.
    let serves_new = in_service == Some(new);
    expect(
        // A delegate that vanished with its engine came back, and was upgraded once more.
        upgraded >= usize::from(serves_new) && upgraded <= usize::from(serves_new || is_rejected) + restored,
        format!("{upgraded} upgrades, {restored} times restored, and {in_service:?} serves"),
    );
    expect(
        rejected == usize::from(is_rejected),
        format!("{rejected} rejections, and a rejected container is kept: {is_rejected}"),
    );
    wrongs
}
