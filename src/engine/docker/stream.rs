//! Reads a long list piece by piece. The memory that this takes is limited, whatever the engine or a proxy sends.

use serde::de::DeserializeOwned;

use crate::engine::EngineError;

/// The longest line and the longest list element to read, in bytes. A line of a pull has a few hundred bytes, and the row of
/// a container a few thousand.
pub(super) const LONGEST: usize = 256 * 1024;

/// Splits a JSON list into its elements. Also accepts `null`, which an engine writes for an empty list.
#[derive(Default)]
pub(super) struct Elements {
    /// The bytes of elements that are not complete yet.
    rest: Vec<u8>,
    has_begun: bool,
    has_ended: bool,
    problem: Option<String>,
}

impl Elements {
    /// Reads the next chunk, and passes on each complete element.
    pub(super) fn read<T: DeserializeOwned>(
        &mut self,
        chunk: &[u8],
        take: impl FnMut(T) -> Result<(), String>,
    ) {
        if self.problem.is_none() && !self.has_ended {
            self.rest.extend_from_slice(chunk);
            self.problem = self.parse(take).err();
        }
    }

    fn parse<T: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(T) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut rest = self.rest.as_slice();
        if !self.has_begun
            && let Some(elements) = rest.trim_ascii_start().strip_prefix(b"[")
        {
            self.has_begun = true;
            rest = elements;
        }
        while self.has_begun && !self.has_ended {
            rest = rest.trim_ascii_start();
            if let Some((separator @ (b',' | b']'), next)) = rest.split_first() {
                self.has_ended = *separator == b']';
                rest = next;
                continue;
            }
            let mut elements = serde_json::Deserializer::from_slice(rest).into_iter::<T>();
            let element = elements.next();
            let after = rest.get(elements.byte_offset()..).unwrap_or_default();
            match element {
                // The next chunk may continue an element at the end of this one, such as a number.
                Some(Ok(element)) if !after.is_empty() => take(element)?,
                Some(Err(error)) if !error.is_eof() => return Err(error.to_string()),
                _ => break,
            }
            rest = after;
        }
        let parsed = self.rest.len() - rest.len();
        self.rest.drain(..parsed);
        if self.rest.len() > LONGEST {
            return Err(too_much("an element", LONGEST));
        }
        Ok(())
    }

    /// Checks that the whole list was read. `most` is the number of bytes after which reading stopped.
    pub(super) fn end(self, path: &str, most: usize) -> Result<(), EngineError> {
        let problem = match self.problem {
            Some(problem) => problem,
            None if self.has_ended || (!self.has_begun && self.rest.trim_ascii() == b"null") => return Ok(()),
            None if !self.has_begun => "it is not a list".to_owned(),
            None => too_much("it", most),
        };
        Err(EngineError::Malformed(format!("{path}: {problem}")))
    }
}

/// Returns the message for an answer that is too long to read completely.
pub(super) fn too_much(what: &str, most: usize) -> String {
    let most = crate::text::size::small(most.try_into().unwrap_or(u64::MAX));
    format!("{what} has more than {most}, which is too much to know")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn splits_a_list_at_top_level_commas_for_any_chunk_size() {
        let list = r#" [ {"a":[1,{"b":"],[\"\\"}]} , "x,]" ,312,[[],{}] ]"#;
        let expected: Vec<Value> = serde_json::from_str(list).unwrap();
        for size in [1, 2, 7, 1000] {
            let (mut elements, mut found) = (Elements::default(), Vec::new());
            for chunk in list.as_bytes().chunks(size) {
                elements.read(chunk, |element: Value| {
                    found.push(element);
                    Ok(())
                });
            }
            assert_eq!(found, expected);
            assert_eq!(elements.end("", 0), Ok(()));
        }
        for (list, is_whole) in [
            ("[]", true),
            ("null", true),
            ("", false),
            ("{}", false),
            ("[1", false),
            ("[1,x]", false),
        ] {
            let mut elements = Elements::default();
            elements.read(list.as_bytes(), |_: Value| Ok(()));
            assert_eq!(elements.end("", 0).is_ok(), is_whole, "{list}");
        }
    }
}
