//! Raw JSON in and out of the engine's API.
