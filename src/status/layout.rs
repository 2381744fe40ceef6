//! Aligned tables for a terminal. They fit its width, and can be read without their colours.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, stdout};

use crate::status::view::Tone;
use crate::text::{self, Foreign};

/// The narrowest last column for which a table is still useful.
const MIN_LAST: usize = 24;
/// The widest terminal that the server accepts from a client.
const MOST_COLUMNS: usize = 1000;
const GAP: &str = "  ";

/// How to format lines: their width, and whether they have colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The columns of the terminal; `None` if lines may have any length.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub has_colour: bool,
}

impl Look {
    /// The look for standard output. Only a terminal gets wrapped lines, and colours, unless `NO_COLOR` is set.
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

    /// The URL query with which a client asks the daemon for this look.
    pub fn query(self) -> String {
        let columns = self
            .width
            .map_or_else(String::new, |width| format!("columns={width}"));
        let colour = if self.has_colour { "&colour" } else { "" };
        columns + colour
    }

    /// The look for which a client asks in its query.
    pub fn asked_for(query: &str) -> Self {
        let mut parts = query.split('&');
        Self {
            width: parts
                .clone()
                .find_map(|part| part.strip_prefix("columns=")?.parse().ok())
                .filter(|columns| *columns <= MOST_COLUMNS),
            has_colour: parts.any(|part| part == "colour"),
        }
    }

    /// Colours a text according to its tone.
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

    /// A text after `begin`, which takes `indent` columns. If it does not fit the terminal, it continues on lines with
    /// the same indent.
    pub fn paragraph(self, begin: &str, indent: usize, text: &str) -> Vec<String> {
        let text = Foreign(text).to_string();
        let mut lines = wrapped(&text, self.room(indent)).into_iter();
        let first = format!("{begin}{}", lines.next().unwrap_or_default());
        let margin = " ".repeat(indent);
        let rest = lines.map(|line| format!("{margin}{line}"));
        std::iter::once(first).chain(rest).collect()
    }

    /// The columns that are left for a text after `indent` columns.
    fn room(self, indent: usize) -> usize {
        self.width
            .map_or(usize::MAX, |width| width.saturating_sub(indent).max(MIN_LAST))
    }
}

/// Rows under a heading. The last column gets the remaining width and wraps.
#[derive(Debug)]
pub struct Table {
    /// The heading is the first row, without a tone.
    rows: Vec<(Option<Tone>, Vec<String>)>,
}

impl Table {
    /// A table without rows, with these column headings.
    pub fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|heading| (*heading).to_owned());
        let rows = vec![(None, heading.collect())];
        Self { rows }
    }

    /// Adds a row with a cell for each heading.
    pub fn row(&mut self, tone: Tone, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells = cells.into_iter().map(|cell| Foreign(cell.as_ref()).to_string());
        self.rows.push((Some(tone), cells.collect()));
    }

    /// Renders the table as lines.
    pub fn lines(&self, look: Look) -> Vec<String> {
        let form = self.form(look);
        let symbol = |tone: Tone| look.paint(tone, &tone.symbol().to_string());
        let lines = |(tone, cells): &(Option<Tone>, Vec<String>)| {
            let symbol = tone.map_or_else(|| " ".to_owned(), symbol);
            form.lines(&format!("{symbol} "), cells)
        };
        self.rows.iter().flat_map(lines).collect()
    }

    fn form(&self, look: Look) -> Form {
        let columns = self.rows.iter().map(|(_, cells)| cells.len()).max();
        let last = columns.unwrap_or_default().saturating_sub(1);
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..last).map(width_of).collect();
        // The width of the symbol and of all columns except the last.
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

/// The layout of rows.
struct Form {
    /// Whether the columns except the last fit into one line. Otherwise the first one gets a line of its own.
    is_in_columns: bool,
    /// Whether the last column starts beside the others, because its longest word fits there.
    is_beside: bool,
    /// The position at which the last column starts, if it is beside the others.
    indent: usize,
    widths: Vec<usize>,
    look: Look,
}

impl Form {
    /// Renders a row as one or more lines.
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
            let _ = write!(begin, "{cell:width$}{GAP}");
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

/// Wraps a text into lines of at most `room` characters, between words where possible.
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
        // Break a word that is longer than a line.
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
        table.row(Tone::Good, ["delegate-1", "runs the published image of today"]);
        table.row(Tone::Bad, ["d", "fine"]);
        table
    }

    fn look(width: Option<usize>) -> Look {
        let has_colour = false;
        Look { width, has_colour }
    }

    #[test]
    fn last_column_wraps_or_moves_below_as_the_terminal_narrows() {
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
    fn last_column_moves_below_rather_than_break_a_word() {
        let mut table = table();
        let long = "registry.example/harness/delegate";
        table.row(Tone::Good, ["e", &format!("pulling {long}")]);
        let lines = table.lines(look(Some(46)));
        assert!(lines.contains(&format!("    pulling {long}")), "{lines:#?}");
    }

    #[test]
    fn first_column_has_its_own_line_when_columns_do_not_fit() {
        let mut table = Table::new(&["CONTAINER", "IMAGE", "HEALTH", "STATUS"]);
        let cells = [
            "a-delegate-in-the-west",
            "harness/delegate:26.03.1",
            "healthy",
            "fine",
        ];
        table.row(Tone::Good, cells);
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
    fn breaks_words_longer_than_a_line() {
        assert_eq!(wrapped("ab cdefgh", 3), ["ab", "cde", "fgh"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn colours_only_the_symbol() {
        let look = Look {
            has_colour: true,
            width: None,
        };
        assert!(table().lines(look)[1].starts_with("\x1b[32m✓\x1b[0m delegate-1  "));
    }
}
