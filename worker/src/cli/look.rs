//! How output looks: aligned columns, grouped digits, and colour only where a person is looking.

use std::io::IsTerminal as _;

/// Colours for standard output, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    colour: bool,
}

impl Look {
    /// Colour on a terminal, unless `NO_COLOR` is set to anything (see no-color.org) or the terminal is dumb.
    pub(crate) fn stdout() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Look {
            colour: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Lines of aligned columns, two blanks apart, without blanks at the end. `paint` colours a cell once its width is
/// settled: it is told the row and the column.
pub(crate) fn columns(
    rows: &[Vec<String>],
    paint: impl Fn(usize, usize, &str) -> String,
) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let last = row
            .iter()
            .rposition(|cell| !cell.is_empty())
            .map_or(0, |last| last + 1);
        for (column, cell) in row.iter().enumerate().take(last) {
            text.push_str(&paint(index, column, cell));
            if column + 1 < last {
                let blanks = widths[column] - cell.chars().count() + 2;
                text.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        text.push('\n');
    }
    text
}

/// A number with its digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes, to three digits.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_letters_not_bytes() {
        let rows = [
            vec!["SHARD".to_owned(), "OWNER".to_owned(), "LAG".to_owned()],
            vec!["1".to_owned(), "a…b".to_owned(), String::new()],
            vec!["22".to_owned(), "b".to_owned(), "3s".to_owned()],
        ];
        let plain = columns(&rows, |_, _, cell| cell.to_owned());
        assert_eq!(plain, "SHARD  OWNER  LAG\n1      a…b\n22     b      3s\n");
        let painted = columns(&rows[2..], |_, column, cell| match column {
            1 => format!("<{cell}>"),
            _ => cell.to_owned(),
        });
        assert_eq!(painted, "22  <b>  3s\n", "colour takes no room");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (1_023, "1023 bytes"),
            (1_536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
