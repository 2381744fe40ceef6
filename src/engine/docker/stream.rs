//! Reads a long list piece by piece. The memory that this takes is limited, whatever the engine or a proxy sends.

use crate::engine::EngineError;

/// The longest line and the longest list element to read, in bytes. A line of a pull has a few hundred bytes, and the row of
/// a container a few thousand.
pub(super) const LONGEST: usize = 256 * 1024;

/// Splits a JSON list into its elements. Also accepts `null`, which an engine writes for an empty list.
#[derive(Default)]
pub(super) struct Elements {
    element: Vec<u8>,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the list has ended.
    is_whole: bool,
    problem: Option<String>,
}

impl Elements {
    /// Reads the next chunk, and passes on each complete element.
    pub(super) fn read(&mut self, mut chunk: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), String>) {
        while self.problem.is_none() {
            let (in_string, is_escaped) = (self.in_string, self.is_escaped);
            let matters = |byte: &u8| match byte {
                _ if is_escaped => true,
                b'"' => true,
                b'\\' => in_string,
                b'[' | b']' | b'{' | b'}' | b',' => !in_string,
                _ => false,
            };
            let end = chunk.iter().position(matters).unwrap_or(chunk.len());
            let (plain, rest) = chunk.split_at(end);
            self.element.extend_from_slice(plain);
            let Some((byte, rest)) = rest.split_first() else {
                break;
            };
            if let Err(problem) = self.next(*byte, &mut take) {
                self.problem = Some(problem);
            }
            chunk = rest;
        }
        if self.problem.is_none() && self.element.len() > LONGEST {
            self.problem = Some(too_much("an element", LONGEST));
        }
        if self.problem.is_some() {
            self.element.clear();
        }
    }

    fn next(&mut self, byte: u8, take: &mut impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        if self.in_string {
            self.in_string = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            self.element.push(byte);
            return Ok(());
        }
        let before = self.depth;
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth = before.saturating_add(1),
            b']' | b'}' => self.depth = before.saturating_sub(1),
            _ => {}
        }
        match (before, byte) {
            (0, b'[') => {}
            (1, b',' | b']') => {
                self.is_whole = byte == b']';
                let is_empty = self.element.iter().all(u8::is_ascii_whitespace);
                let taken = if is_empty { Ok(()) } else { take(&self.element) };
                self.element.clear();
                return taken;
            }
            _ => self.element.push(byte),
        }
        Ok(())
    }

    /// Checks that the whole list was read. `most` is the number of bytes after which reading stopped.
    pub(super) fn end(self, path: &str, most: usize) -> Result<(), EngineError> {
        let problem = match self.problem {
            Some(problem) => problem,
            None if self.is_whole || self.element.trim_ascii() == b"null" => return Ok(()),
            None if self.depth == 0 => "it is not a list".to_owned(),
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
    use super::*;

    #[test]
    fn splits_a_list_at_top_level_commas_for_any_chunk_size() {
        let list = r#" [ {"a":[1,{"b":"],[\"\\"}]} , "x,]" ,3,[[],{}] ]"#;
        let expected = [r#"{"a":[1,{"b":"],[\"\\"}]}"#, r#""x,]""#, "3", "[[],{}]"];
        for size in [1, 2, 7, 1000] {
            let (mut elements, mut found) = (Elements::default(), Vec::new());
            for chunk in list.as_bytes().chunks(size) {
                elements.read(chunk, |element| {
                    found.push(String::from_utf8_lossy(element).trim().to_owned());
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
        ] {
            let mut elements = Elements::default();
            elements.read(list.as_bytes(), |_| Ok(()));
            assert_eq!(elements.end("", 0).is_ok(), is_whole, "{list}");
        }
    }
}
