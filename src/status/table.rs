//! Aligned tables for a terminal: they fit its width, and colour is never needed to read them.

use std::io::{IsTerminal as _, stdout};

use crate::status::view::Tone;
use crate::text;

/// The narrowest last column that is still worth a table.
const MIN_LAST: usize = 24;
/// Between two columns.
const GAP: &str = "  ";

/// How lines are to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The columns of the terminal; `None` where lines may have any length.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub has_colour: bool,
}

impl Look {
    /// As standard output wants it: what is not a terminal gets whole lines without colour. `NO_COLOR` turns colour off
    /// (no-color.org).
    pub fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::default();
        }
        let size = rustix::termios::tcgetwinsize(stdout()).ok();
        Self {
            width: size
                .map(|size| usize::from(size.ws_col))
                .filter(|width| *width > 0),
            has_colour: text::has_colour(),
        }
    }

    /// This look, as a client asks the daemon for it.
    pub fn query(self) -> String {
        let columns = self
            .width
            .map_or_else(String::new, |width| format!("columns={width}"));
        let colour = if self.has_colour { "&colour" } else { "" };
        columns + colour
    }

    /// The look that a client asks for.
    pub fn asked_for(query: &str) -> Self {
        let mut parts = query.split('&');
        Self {
            width: parts
                .clone()
                .find_map(|part| part.strip_prefix("columns=")?.parse().ok()),
            has_colour: parts.any(|part| part == "colour"),
        }
    }

    /// A text in the colour of its tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if !self.has_colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Busy => 36,
            Tone::Attention => 33,
            Tone::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Look {
    /// A text after a beginning of `indent` columns, going on below itself where it is longer than the terminal is wide.
    pub fn paragraph(self, begin: &str, indent: usize, text: &str) -> Vec<String> {
        let mut lines = wrapped(text, self.room(indent)).into_iter();
        let first = format!("{begin}{}", lines.next().unwrap_or_default());
        let margin = " ".repeat(indent);
        let rest = lines.map(|line| format!("{margin}{line}"));
        std::iter::once(first).chain(rest).collect()
    }

    /// How many columns are left for a text that begins after so many.
    fn room(self, indent: usize) -> usize {
        self.width
            .map_or(usize::MAX, |width| width.saturating_sub(indent).max(MIN_LAST))
    }
}

/// Rows under a heading. The last column gets the room that is left, and goes on below where it is longer.
#[derive(Debug)]
pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<(Tone, Vec<String>)>,
}

impl Table {
    /// A table without rows, and the headings of its columns.
    pub fn new(heading: &[&'static str]) -> Self {
        Self {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each heading.
    pub fn row(&mut self, tone: Tone, cells: Vec<String>) {
        self.rows.push((tone, cells));
    }

    /// The table as lines.
    pub fn lines(&self, look: Look) -> Vec<String> {
        let form = self.form(look);
        let heading: Vec<String> = self.heading.iter().map(|heading| (*heading).to_owned()).collect();
        let mut lines = form.lines("  ", &heading);
        for (tone, cells) in &self.rows {
            let symbol = look.paint(*tone, &tone.symbol().to_string()) + " ";
            lines.extend(form.lines(&symbol, cells));
        }
        lines
    }

    fn form(&self, look: Look) -> Form {
        let last = self.heading.len().saturating_sub(1);
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
            longest.max(self.heading.get(column).map_or(0, |heading| heading.len()))
        };
        let widths: Vec<usize> = (0..last).map(width_of).collect();
        // The symbol, and the columns before the last.
        let indent = 2 + widths.iter().map(|width| width + GAP.len()).sum::<usize>();
        let texts = self.rows.iter().filter_map(|(_, cells)| cells.last());
        let words = texts.flat_map(|text| text.split_whitespace());
        let longest = words.map(|word| word.chars().count()).max().unwrap_or_default();
        let has_room = |width| width >= indent + longest.max(MIN_LAST);
        Form {
            is_in_columns: look.width.is_none_or(|width| width + GAP.len() >= indent),
            is_beside: look.width.is_none_or(has_room),
            indent,
            widths,
            look,
        }
    }
}

/// How rows are laid out.
struct Form {
    /// Whether the columns before the last fit into a line; else the first has one of its own.
    is_in_columns: bool,
    /// Whether the last column begins beside the others, and not on a line of its own: there is room for its longest word.
    is_beside: bool,
    /// Where the last column begins, beside the others.
    indent: usize,
    widths: Vec<usize>,
    look: Look,
}

impl Form {
    /// A row as one or more lines.
    fn lines(&self, symbol: &str, cells: &[String]) -> Vec<String> {
        const BELOW: usize = 4;
        let (last, columns) = cells
            .split_last()
            .map_or(("", cells), |(last, cells)| (last, cells));
        let below = |text: &str| self.look.paragraph(&" ".repeat(BELOW), BELOW, text);
        if !self.is_in_columns
            && let Some((first, others)) = columns.split_first()
        {
            let others = below(&others.join(GAP));
            return [vec![format!("{symbol}{first}")], others, below(last)].concat();
        }
        let mut begin = symbol.to_owned();
        for (cell, width) in columns.iter().zip(&self.widths) {
            begin.push_str(cell);
            begin.push_str(&" ".repeat(width - cell.chars().count()));
            begin.push_str(GAP);
        }
        let mut lines = if self.is_beside {
            self.look.paragraph(&begin, self.indent, last)
        } else {
            [vec![begin], below(last)].concat()
        };
        for line in &mut lines {
            line.truncate(line.trim_end().len());
        }
        lines
    }
}

/// A text in lines of at most so many characters, broken between words where there are any.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    if text.chars().count() <= room {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line: Vec<char> = Vec::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.len() + 1 + word.len() > room {
            lines.push(line.drain(..).collect());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A word that is longer than a line.
        while word.len() > room {
            lines.push(word.drain(..room).collect());
        }
        line.extend(word);
    }
    lines.push(line.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["CONTAINER", "STATUS"]);
        let cells = |name: &str, text: &str| vec![name.to_owned(), text.to_owned()];
        table.row(
            Tone::Good,
            cells("delegate-1", "runs the published image of today"),
        );
        table.row(Tone::Bad, cells("d", "fine"));
        table
    }

    fn look(width: Option<usize>) -> Look {
        let has_colour = false;
        Look { width, has_colour }
    }

    #[test]
    fn the_last_column_is_aligned_goes_on_below_itself_or_has_lines_of_its_own() {
        let whole = [
            "  CONTAINER   STATUS",
            "✓ delegate-1  runs the published image of today",
            "✗ d           fine",
        ];
        let narrower = [
            "  CONTAINER   STATUS",
            "✓ delegate-1  runs the published image",
            "              of today",
            "✗ d           fine",
        ];
        let narrow = [
            "  CONTAINER",
            "    STATUS",
            "✓ delegate-1",
            "    runs the published image",
            "    of today",
            "✗ d",
            "    fine",
        ];
        for (width, expected) in [(None, &whole[..]), (Some(40), &narrower), (Some(30), &narrow)] {
            assert_eq!(table().lines(look(width)), expected, "{width:?}");
        }
    }

    #[test]
    fn a_word_of_the_last_column_is_not_broken_where_it_has_room_below() {
        let mut table = table();
        let long = "registry.example/harness/delegate";
        table.row(Tone::Good, vec!["e".to_owned(), format!("pulling {long}")]);
        let lines = table.lines(look(Some(46)));
        assert!(lines.contains(&format!("    pulling {long}")), "{lines:#?}");
    }

    #[test]
    fn where_the_columns_do_not_fit_the_first_has_a_line_of_its_own() {
        let mut table = Table::new(&["CONTAINER", "IMAGE", "HEALTH", "STATUS"]);
        let cells = [
            "a-delegate-in-the-west",
            "harness/delegate:26.03.1",
            "healthy",
            "fine",
        ];
        table.row(Tone::Good, cells.map(str::to_owned).to_vec());
        assert_eq!(
            table.lines(look(Some(40))),
            [
                "  CONTAINER",
                "    IMAGE  HEALTH",
                "    STATUS",
                "✓ a-delegate-in-the-west",
                "    harness/delegate:26.03.1  healthy",
                "    fine",
            ]
        );
    }

    #[test]
    fn a_word_that_is_too_long_is_broken() {
        assert_eq!(wrapped("ab cdefgh", 3), ["ab", "cde", "fgh"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn colour_is_added_to_the_symbol_only() {
        let look = Look {
            has_colour: true,
            width: None,
        };
        assert!(table().lines(look)[1].starts_with("\x1b[32m✓\x1b[0m delegate-1  "));
    }
}
