//! JSON for people.

/// JSON with a line for each value. serde_json's own printer would be compiled once for each type.
pub fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    let mut chars = json.chars().peekable();
    let line = |text: &mut String, depth| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        if is_string {
            is_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            text.push(c);
            continue;
        }
        match c {
            '{' | '[' => {
                text.push(c);
                let closing = chars.next_if(|next| matches!(next, '}' | ']'));
                if let Some(closing) = closing {
                    text.push(closing);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                is_string = c == '"';
                text.push(c);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indented_json_is_as_the_library_prints_it() {
        let value = json!({ "a": [1, {}, [], "x,{\"\\"], "b": { "c": null, "d": [[true]] }, "e": "" });
        assert_eq!(
            indented(&value.to_string()),
            serde_json::to_string_pretty(&value).unwrap()
        );
    }
}
