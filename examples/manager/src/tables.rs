//! Lists for people: columns under a heading.

/// Lines with columns as wide as their widest entry; the last one is not filled up.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|title| title.chars().count());
    for row in rows {
        for (width, entry) in widths.iter_mut().zip(row) {
            *width = entry.chars().count().max(*width);
        }
    }
    let mut text = line(&widths, heading.iter().copied());
    for row in rows {
        text.push_str(&line(&widths, row.iter().map(String::as_str)));
    }
    text
}

fn line<'a>(widths: &[usize], entries: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = entries
        .zip(widths)
        // Text that upgraders wrote into it shall move no cursor.
        .map(|(entry, &width)| format!("{:width$}", entry.escape_debug().to_string()))
        .collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_nothing_moves_the_cursor() {
        let rows = [
            ["a".to_owned(), "much wider".to_owned(), "x".to_owned()],
            ["long".to_owned(), "\u{1b}[2J".to_owned(), String::new()],
        ];
        assert_eq!(
            table(["name", "what", "last"], &rows),
            "name  what        last\na     much wider  x\nlong  \\u{1b}[2J\n"
        );
    }
}
