//! dunlin.toml(5): the chapter of the operator's guide on the configuration, as a manual page.

use std::iter::Peekable;
use std::str::Lines;

const GUIDE: &str = include_str!("../../../../docs/operators-guide.md");
const CHAPTER: &str = "Configuration\n";
const HEAD: &str = ".TH dunlin.toml 5 \"\" dunlin Dunlin
.SH NAME
dunlin.toml \\- configuration of the DNS server dunlin
.SH DESCRIPTION
";
const TAIL: &str = ".SH SEE ALSO
.BR dunlin (1),
.BR dunlin\\-serve (1),
.BR dunlin\\-check (1),
.BR dunlin\\-ctl (1)
";
const INDENT: &str = "    ";

pub fn page() -> String {
    let chapter = GUIDE.split("\n## ").find_map(|chapter| chapter.strip_prefix(CHAPTER)).unwrap_or_default();
    let (mut lines, mut out) = (chapter.lines().peekable(), HEAD.to_string());
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("### ") {
            out.push_str(&format!(".SH {}\n", inline(title)));
        } else if let Some(title) = line.strip_prefix("#### ") {
            out.push_str(&format!(".SS {}\n", inline(title)));
        } else if let Some(first) = line.strip_prefix(INDENT) {
            example(first, &mut lines, &mut out);
        } else if line.starts_with('|') {
            table(line, &mut lines, &mut out);
        } else if let Some(item) = line.strip_prefix("- ") {
            out.push_str(&format!(".IP \\(bu 2\n{}\n", inline(item)));
        } else if line.is_empty() {
            out.push_str(if out.ends_with(".PP\n") { "" } else { ".PP\n" });
        } else {
            out.push_str(&format!("{}\n", inline(line.trim_start())));
        }
    }
    out + TAIL
}

/// What is to be written as it stands, to the last line that is.
fn example(first: &str, lines: &mut Peekable<Lines<'_>>, out: &mut String) {
    out.push_str(".PP\n.RS 4\n.nf\n");
    let mut line = Some(first);
    while let Some(text) = line {
        out.push_str(&format!("\\&{}\n", escaped(text)));
        line = lines.next_if(|line| line.starts_with(INDENT)).map(|line| &line[INDENT.len()..]);
    }
    out.push_str(".fi\n.RE\n.PP\n");
}

/// A row is what its first cell says, and of the others what their columns are called where that is more than "what".
fn table(head: &str, lines: &mut Peekable<Lines<'_>>, out: &mut String) {
    let columns = cells(head);
    while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
        if row.starts_with("|-") {
            continue;
        }
        let cells = cells(row);
        out.push_str(&format!(".TP\n{}\n", inline(cells.first().unwrap_or(&""))));
        for (column, cell) in columns.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            let text = inline(cell);
            let is_said = *column == "what";
            out.push_str(&if is_said { format!("{text}\n") } else { format!("({column}: {text})\n") });
        }
    }
    out.push_str(".PP\n");
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Text with what stands between backquotes, or is bold, in bold, and links as their text.
fn inline(text: &str) -> String {
    let bold = |text: &str| format!("\\fB{}\\fR", escaped(text));
    let mut out = String::new();
    for (n, part) in text.split('`').enumerate() {
        if n % 2 == 1 {
            out.push_str(&bold(part));
            continue;
        }
        for (n, part) in unlinked(part).split("**").enumerate() {
            out.push_str(&if n % 2 == 1 { bold(part) } else { escaped(part) });
        }
    }
    // At the beginning of a line these are requests.
    if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
}

fn unlinked(text: &str) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let from = out.rfind('[').unwrap_or(out.len());
        out = format!("{}{}", &out[..from], out[from..].trim_start_matches('['));
        out.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            c if c.is_ascii() => out.push(c),
            c => out.push_str(&format!("\\[u{:04X}]", u32::from(c))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_stand_out_links_and_requests() {
        for (text, expect) in [
            ("a `key-x` and b", "a \\fBkey\\-x\\fR and b"),
            ("see [the page](x.md), [that](y) too", "see the page, that too"),
            ("`[[zone]]` has [errors](z.md)", "\\fB[[zone]]\\fR has errors"),
            (".NET", "\\&.NET"),
            ("**All** of `it`", "\\fBAll\\fR of \\fBit\\fR"),
            ("a\\b…", "a\\eb\\[u2026]"),
        ] {
            assert_eq!(inline(text), expect);
        }
    }

    #[test]
    fn every_section_of_the_configuration_is_on_the_page() {
        let page = page();
        for section in ["server", "control", "limits", "log", "guards", "history", "resolver"] {
            assert!(page.contains(&format!(".SH [{section}]")), "{section}");
        }
        assert!(page.contains("\n.SS ZONEMD\n") && !page.contains("\n#"));
        assert!(page.contains(".TP\n\\fBlisten\\fR\n(default: \\fB["), "{}", &page[..2000]);
    }
}
