//! Walks a parsed TOML document and collects every complaint about it, with the place of each.
//!
//! A value that is wrong is complained about and then left out, so that one reading finds all that is wrong.

use super::units;
use crate::complaint::{Complaint, Text, nearest};
use crate::stamp::Stamp;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub type Table<'a> = DeTable<'a>;
pub type Value<'a> = Spanned<DeValue<'a>>;

/// A key whose feature is not built yet: accepted only where it repeats what happens anyway.
pub struct Later {
    pub key: &'static str,
    pub default: Repeats,
}

pub enum Repeats {
    /// No value of this key leaves things as they are.
    Nothing,
    /// As TOML, with one blank after each comma.
    Literal(&'static str),
}

pub const fn later(key: &'static str, default: Repeats) -> Later {
    Later { key, default }
}

pub struct Reader<'a> {
    pub text: Text<'a>,
    pub complaints: Vec<Complaint>,
    /// Further files that were read for it.
    pub sources: Vec<(PathBuf, Option<Stamp>)>,
}

/// A string of the document with its place.
#[derive(Clone)]
pub struct Word {
    pub text: String,
    pub span: Range<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(text: Text<'a>) -> Reader<'a> {
        Reader { text, complaints: Vec::new(), sources: Vec::new() }
    }

    pub fn complain(&mut self, span: Range<usize>, what: impl Into<String>, instead: impl Into<String>) {
        self.complaints.push(self.text.complaint(span, what, instead));
    }

    /// Complains about keys that are neither in `built` nor in `later`, and about those of `later` that would matter.
    pub fn keys(&mut self, section: &str, table: &Table<'_>, built: &[&str], later: &[Later]) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if built.contains(&name) {
                continue;
            }
            match later.iter().find(|l| l.key == name) {
                Some(l) if l.default.is(value.get_ref()) => {}
                Some(_) => self.not_built(key.span(), &format!("`{name}` in {section}")),
                None => {
                    let known = built.iter().copied().chain(later.iter().map(|l| l.key));
                    self.unknown(section, name, key.span(), known);
                }
            }
        }
    }

    fn unknown<'k>(&mut self, section: &str, name: &str, span: Range<usize>, known: impl Iterator<Item = &'k str>) {
        let known: Vec<&str> = known.collect();
        let instead = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "remove it".to_string(),
            None => format!("the keys here are {}", known.join(", ")),
        };
        self.complain(span, format!("there is no key `{name}` in {section}"), instead);
    }

    pub fn not_built(&mut self, span: Range<usize>, what: &str) {
        self.complain(span, format!("{what}: not built yet"), "remove it; this version does not do it");
    }

    fn kind(&mut self, value: &Value<'_>, key: &str, wanted: &str, example: &str) {
        let is = match value.get_ref().type_str() {
            "string" => "a text",
            "boolean" => "true or false",
            "array" => "a list",
            "table" => "a table",
            "integer" | "float" => "a number",
            _ => "a date",
        };
        self.complain(
            value.span(),
            format!("`{key}` is {wanted}, and this is {is}"),
            format!("write {key} = {example}"),
        );
    }

    pub fn string(&mut self, table: &Table<'_>, key: &str, example: &str) -> Option<Word> {
        let value = table.get(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(Word { text: text.to_string(), span: value.span() }),
            None => {
                self.kind(value, key, "a text", &format!("\"{example}\""));
                None
            }
        }
    }

    pub fn boolean(&mut self, table: &Table<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            // What was meant, not the opposite.
            let is_no = value
                .get_ref()
                .as_str()
                .is_some_and(|text| ["no", "off", "false", "none"].iter().any(|no| no.eq_ignore_ascii_case(text)));
            self.kind(value, key, "true or false", if is_no { "false" } else { "true" });
        }
        found
    }

    pub fn number(&mut self, table: &Table<'_>, key: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = table.get(key)?;
        let Some(written) = value.get_ref().as_integer() else {
            self.kind(value, key, "a number", &range.start().to_string());
            return None;
        };
        let found = u64::from_str_radix(written.as_str(), written.radix()).ok().filter(|n| range.contains(n));
        if found.is_none() {
            let (low, high) = range.into_inner();
            self.complain(
                value.span(),
                format!("`{key}` is out of range"),
                format!("write a number from {low} to {high}"),
            );
        }
        found
    }

    pub fn time_ms(&mut self, table: &Table<'_>, key: &str, example: &str) -> Option<u64> {
        let word = self.string(table, key, example)?;
        let found = units::time_ms(&word.text);
        if found.is_none() {
            let what = format!("`{}` is no time", word.text);
            self.complain(word.span, what, format!("write a number and one of ms, s, m, h, d, w: \"{example}\""));
        }
        found
    }

    pub fn size(&mut self, table: &Table<'_>, key: &str, example: &str) -> Option<u64> {
        let word = self.string(table, key, example)?;
        let found = units::size(&word.text);
        if found.is_none() {
            let what = format!("`{}` is no size", word.text);
            self.complain(word.span, what, format!("write a number and one of KiB, MiB, GiB: \"{example}\""));
        }
        found
    }

    /// A list of texts.
    pub fn strings(&mut self, table: &Table<'_>, key: &str, example: &str) -> Option<Vec<Word>> {
        let value = table.get(key)?;
        let Some(items) = value.get_ref().as_array() else {
            self.kind(value, key, "a list of texts", &format!("[\"{example}\"]"));
            return None;
        };
        let mut words = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_str() {
                Some(text) => words.push(Word { text: text.to_string(), span: item.span() }),
                None => self.kind(item, key, "a list of texts", &format!("[\"{example}\"]")),
            }
        }
        Some(words)
    }

    pub fn table<'t, 'i>(&mut self, table: &'t Table<'i>, key: &str) -> Option<&'t Table<'i>> {
        let value = table.get(key)?;
        let found = value.get_ref().as_table();
        if found.is_none() {
            self.complain(value.span(), format!("`{key}` is a table"), format!("write [{key}] on a line of its own"));
        }
        found
    }

    pub fn tables<'t, 'i>(&mut self, table: &'t Table<'i>, key: &str) -> Vec<(&'t Table<'i>, Range<usize>)> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let mut found = Vec::new();
        let items = value.get_ref().as_array().map(|items| items.iter().collect::<Vec<_>>()).unwrap_or_default();
        for item in &items {
            match item.get_ref().as_table() {
                Some(t) => found.push((t, item.span())),
                None => self.complain(item.span(), format!("`{key}` is a list of tables"), format!("write [[{key}]]")),
            }
        }
        if value.get_ref().as_array().is_none() {
            self.complain(value.span(), format!("`{key}` is a list of tables"), format!("write [[{key}]]"));
        }
        found
    }

    /// Paths start at the file that names them.
    pub fn path(&self, word: &Word) -> PathBuf {
        self.text.file.parent().unwrap_or(std::path::Path::new("")).join(&word.text)
    }
}

impl Repeats {
    fn is(&self, value: &DeValue<'_>) -> bool {
        match self {
            Repeats::Nothing => false,
            Repeats::Literal(text) => literal(value) == *text,
        }
    }
}

/// A value as TOML in one fixed spelling, for comparison.
fn literal(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(s) => format!("\"{s}\""),
        DeValue::Integer(n) => n.as_str().to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Array(items) => {
            format!("[{}]", items.iter().map(|v| literal(v.get_ref())).collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    }
}
