//! The container document: inspect → create body, raw JSON in and out.
