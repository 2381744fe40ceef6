//! What Podman's Docker-compatible API is known to lose, each with the reason. Anything else that is lost there fails.

/// Where a loss is found (the beginning of its path), and why.
const KNOWN: [(&str, &str); 1] = [("/none", "none")];

/// Why Podman loses this, if that is known. A loss of the second upgrade has that before its path.
pub(crate) fn explain(loss: &str) -> Option<&'static str> {
    let path = loss.strip_prefix(crate::trial::SECOND).unwrap_or(loss);
    let known = KNOWN.iter().find(|(begin, _)| {
        let rest = path.strip_prefix(begin);
        rest.is_some_and(|rest| rest.starts_with([':', '/']))
    });
    known.map(|(_, why)| *why)
}
