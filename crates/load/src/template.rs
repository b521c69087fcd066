//! Queries made from a pattern: `{random:12}.{zone} A`.
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{random:N}` | N letters and digits, new each time |
//! | `{seq}` | 0, 1, 2 ... |
//! | `{pick:a,b}` | one of these; in the place of the type too |
//! | `{zipf:FILE}` | a line of the file: the first most often, the n-th 1/n as often |
//! | `{zone}` | what --zone says |
//!
//! Behind the type may stand `*N`: how often this template is used beside the others.

use crate::caret::Caret;
use crate::chance::Chance;
use crate::question::{self, type_of};
use crate::shape::QUESTION_MAX;

const WRITE: &str = "write {random:N}, {seq}, {pick:a,b}, {zipf:FILE} or {zone}";

/// Names of a file, the most popular first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Names {
    /// The first word of each line that is not blank and no remark.
    pub fn new(text: &[u8]) -> Names {
        let mut names = Names::default();
        for line in text.split(|c| *c == b'\n') {
            let word = line.split(u8::is_ascii_whitespace).find(|w| !w.is_empty()).unwrap_or_default();
            if !word.is_empty() && !matches!(word[0], b'#' | b';') {
                names.text.extend_from_slice(word);
                names.ends.push(names.text.len() as u32);
            }
        }
        names
    }

    fn at(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.text[start..self.ends[i] as usize]
    }

    /// A logarithm spread evenly makes rank k as likely as ln((k+1)/k), about 1/k, with no table.
    fn zipf(&self, chance: &mut Chance) -> &[u8] {
        let n = self.ends.len();
        let rank = (chance.part() * ((n + 1) as f64).ln()).exp() as usize;
        self.at(rank.clamp(1, n) - 1)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(Vec<u8>),
    Random(usize),
    Sequence,
    Pick(Vec<Vec<u8>>),
    Zipf(Names),
}

#[derive(Clone, Debug, PartialEq)]
struct Template {
    name: Vec<Part>,
    types: Vec<u16>,
    weight: f64,
}

/// What templates may refer to.
pub struct Surroundings<'a> {
    pub zone: &'a str,
    /// Reads a file of names.
    pub names: &'a dyn Fn(&str) -> Result<Names, String>,
}

/// Templates, each used as often as its weight says.
#[derive(Clone, Debug)]
pub struct Templates {
    templates: Vec<Template>,
    weights: f64,
    chance: Chance,
    sequence: u64,
    text: Vec<u8>,
    written: String,
}

impl Templates {
    pub fn describe(&self) -> String {
        format!("template {}", self.written)
    }

    pub fn parse(texts: &[String], around: &Surroundings<'_>, seed: u64) -> Result<Templates, Caret> {
        let templates = texts.iter().map(|t| Template::parse(t, around)).collect::<Result<Vec<_>, _>>()?;
        let weights = templates.iter().map(|t| t.weight).sum();
        let mut all = Templates {
            templates,
            weights,
            chance: Chance::new(seed),
            sequence: 0,
            text: Vec::new(),
            written: texts.join("; "),
        };
        for text in texts {
            all.try_out(text)?;
        }
        Ok(all)
    }

    /// A template must give names; that it does is seen before the start rather than in the middle.
    fn try_out(&mut self, text: &str) -> Result<(), Caret> {
        let which = self.templates.len();
        let mut out = [0; QUESTION_MAX];
        for i in 0..which {
            if let Err(bad) = self.render(i, &mut out) {
                let made = String::from_utf8_lossy(&self.text).into_owned();
                return Err(Caret::new("template", text, 0, format!("it makes `{made}`: {}", bad.why)));
            }
        }
        self.sequence = 0;
        Ok(())
    }

    /// The next question; 0 where chance made something that is no name.
    #[inline]
    pub fn next(&mut self, out: &mut [u8; QUESTION_MAX]) -> usize {
        let which = self.pick();
        self.render(which, out).unwrap_or(0)
    }

    #[inline]
    fn pick(&mut self) -> usize {
        if self.templates.len() == 1 {
            return 0;
        }
        let mut at = self.chance.part() * self.weights;
        let stop = |t: &Template| {
            at -= t.weight;
            at < 0.0
        };
        self.templates.iter().position(stop).unwrap_or(0)
    }

    #[inline]
    fn render(&mut self, which: usize, out: &mut [u8; QUESTION_MAX]) -> Result<usize, question::BadLine> {
        let template = &self.templates[which];
        self.text.clear();
        for part in &template.name {
            match part {
                Part::Text(text) => self.text.extend_from_slice(text),
                Part::Random(n) => random(*n, &mut self.chance, &mut self.text),
                Part::Sequence => {
                    number(self.sequence, &mut self.text);
                    self.sequence += 1;
                }
                Part::Pick(all) => {
                    self.text.extend_from_slice(&all[self.chance.below(all.len() as u64) as usize]);
                }
                Part::Zipf(names) => self.text.extend_from_slice(names.zipf(&mut self.chance)),
            }
        }
        let rtype = match template.types[..] {
            [one] => one,
            ref all => all[self.chance.below(all.len() as u64) as usize],
        };
        question::write(&self.text, rtype, out)
    }
}

#[inline]
fn random(n: usize, chance: &mut Chance, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut left = n;
    while left > 0 {
        let mut bits = chance.bits();
        for _ in 0..left.min(12) {
            out.push(LETTERS[(bits & 31) as usize]);
            bits >>= 5;
        }
        left -= left.min(12);
    }
}

fn number(mut n: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (n % 10) as u8);
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out[start..].reverse();
}

impl Template {
    fn parse(text: &str, around: &Surroundings<'_>) -> Result<Template, Caret> {
        let bad = |at: usize, why: &str| Caret::new("template", text, at, why);
        if let Some(open) = unclosed(text) {
            return Err(bad(open, "this brace is never closed: write `}`"));
        }
        let words = words(text);
        let (name, rest) = match &words[..] {
            [] => return Err(bad(0, "it is empty: write a name and a type, such as `{random:12}.example.com A`")),
            [_] => return Err(bad(text.len(), "a type is missing: write `NAME TYPE`")),
            [name, rest @ ..] => (*name, rest),
        };
        let weight = match rest {
            [_] => 1.0,
            [_, (at, weight)] => {
                weight_of(weight).ok_or_else(|| bad(*at, "behind the type only a weight may stand, such as `*3`"))?
            }
            [_, _, (at, _), ..] => return Err(bad(*at, "nothing may stand behind the weight")),
            [] => 1.0,
        };
        Ok(Template { name: parts(text, name, around)?, types: types(text, rest[0])?, weight })
    }
}

/// Where a brace stands that is not closed before the next one opens: none stands within another.
fn unclosed(text: &str) -> Option<usize> {
    let mut open = None;
    for (i, c) in text.char_indices() {
        match (c, open) {
            ('{', Some(_)) => return open,
            ('{', None) => open = Some(i),
            ('}', _) => open = None,
            _ => {}
        }
    }
    open
}

/// Words and where they begin; blanks within braces do not part them.
fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut start, mut depth) = (Vec::new(), None, 0u32);
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (c.is_whitespace() && depth == 0, start) {
            (true, Some(from)) => {
                found.push((from, &text[from..i]));
                start = None;
            }
            (false, None) => start = Some(i),
            _ => {}
        }
    }
    found.extend(start.map(|from| (from, &text[from..])));
    found
}

fn weight_of(text: &str) -> Option<f64> {
    crate::quantity::number(text.strip_prefix('*')?).filter(|w| *w > 0.0)
}

fn types(text: &str, (at, word): (usize, &str)) -> Result<Vec<u16>, Caret> {
    let list = word.strip_prefix("{pick:").and_then(|w| w.strip_suffix('}')).unwrap_or(word);
    let begin = at + (list.as_ptr() as usize - word.as_ptr() as usize);
    let mut types = Vec::new();
    let mut from = begin;
    for one in list.split(',') {
        let why = || Caret::new("template", text, from, format!("no such type: `{one}`; write AAAA, or TYPE28"));
        types.push(type_of(one.as_bytes()).ok_or_else(why)?);
        from += one.len() + 1;
    }
    Ok(types)
}

fn parts(text: &str, (start, name): (usize, &str), around: &Surroundings<'_>) -> Result<Vec<Part>, Caret> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < name.len() {
        let rest = &name[at..];
        if let Some(inner) = rest.strip_prefix('{') {
            let unclosed = || Caret::new("template", text, start + at, "this brace is never closed: write `}`");
            let close = inner.find('}').ok_or_else(unclosed)?;
            let part = placeholder(&inner[..close], around);
            parts.push(part.map_err(|(offset, why)| Caret::new("template", text, start + at + 1 + offset, why))?);
            at += close + 2;
        } else {
            let end = rest.find(['{', '}']).unwrap_or(rest.len());
            if end == 0 {
                return Err(Caret::new("template", text, start + at, "a `}` without its `{`"));
            }
            parts.push(Part::Text(rest.as_bytes()[..end].to_vec()));
            at += end;
        }
    }
    Ok(parts)
}

/// What stands between braces; the error's place is an offset in it.
fn placeholder(inner: &str, around: &Surroundings<'_>) -> Result<Part, (usize, String)> {
    let (name, value) = inner.split_once(':').unwrap_or((inner, ""));
    let value_at = (name.len() + 1).min(inner.len());
    match name {
        "random" => {
            let n = if value.is_empty() { Some(12) } else { value.parse().ok() };
            let n = n.filter(|n| (1..=63).contains(n));
            n.map(Part::Random).ok_or((value_at, "a number of letters belongs here, 1 to 63".to_string()))
        }
        "seq" => Ok(Part::Sequence),
        "zone" if around.zone.is_empty() => Err((0, "no zone is known: say --zone NAME".to_string())),
        "zone" => Ok(Part::Text(around.zone.trim_end_matches('.').as_bytes().to_vec())),
        "pick" if value.is_empty() => Err((value_at, "there is nothing to pick: write {pick:a,b}".to_string())),
        "pick" => Ok(Part::Pick(value.split(',').map(|word| word.as_bytes().to_vec()).collect())),
        "zipf" => {
            let names = (around.names)(value).map_err(|why| (value_at, why))?;
            if names.ends.is_empty() {
                Err((value_at, format!("{value} holds no names")))
            } else {
                Ok(Part::Zipf(names))
            }
        }
        _ => Err((0, format!("there is no `{name}`: {WRITE}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn around<'a>() -> Surroundings<'a> {
        let names: &dyn Fn(&str) -> Result<Names, String> = &|file| match file {
            "names" => Ok(Names::new(b"one.\n# remark\n\ntwo. A\nthree.\nfour.\n")),
            _ => Err(format!("{file} cannot be read")),
        };
        Surroundings { zone: "example.com.", names }
    }

    fn parse(texts: &[&str]) -> Result<Templates, Caret> {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        Templates::parse(&texts, &around(), 7)
    }

    fn made(texts: &[&str], n: usize) -> Vec<String> {
        let mut templates = parse(texts).unwrap();
        let mut out = [0; QUESTION_MAX];
        (0..n)
            .map(|_| {
                let len = templates.next(&mut out);
                question::text(&out[..len])
            })
            .collect()
    }

    fn counts(names: &[String]) -> BTreeMap<&str, usize> {
        names.iter().fold(BTreeMap::new(), |mut all, name| {
            *all.entry(name.as_str()).or_default() += 1;
            all
        })
    }

    #[test]
    fn random_labels_differ_and_have_their_length() {
        let all = made(&["{random:12}.{zone} A"], 1000);
        assert!(all.iter().all(|n| n.len() == "123456789012.example.com. A".len() && n.ends_with(".example.com. A")));
        assert_eq!(counts(&all).len(), 1000);
        assert_eq!(made(&["{random:63}.x A"], 1)[0].len(), 68);
        assert_eq!(all, made(&["{random:12}.{zone} A"], 1000), "the same seed, the same names");
    }

    #[test]
    fn sequences_count_and_picks_are_even() {
        assert_eq!(made(&["h{seq}.x A"], 3), ["h0.x. A", "h1.x. A", "h2.x. A"]);
        let all = made(&["{pick:a,b}.x {pick:A,TXT}"], 4000);
        let counts = counts(&all);
        assert_eq!(counts.len(), 4);
        assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn zipf_asks_for_the_first_most_often() {
        let all = made(&["{zipf:names} AAAA"], 10_000);
        let counts = counts(&all);
        let part = |name: &str| counts[name] as f64 / 10_000.0;
        for (name, k) in [("one. AAAA", 1.0f64), ("two. AAAA", 2.0), ("three. AAAA", 3.0), ("four. AAAA", 4.0)] {
            let expect = ((k + 1.0) / k).ln() / 5f64.ln();
            assert!((part(name) - expect).abs() < 0.02, "{name} {} {expect}", part(name));
        }
    }

    #[test]
    fn weights_are_kept() {
        let all = made(&["a.x A *3", "b.x A"], 8000);
        assert!((5700..6300).contains(&counts(&all)["a.x. A"]));
    }

    #[test]
    fn what_is_wrong_has_a_caret() {
        for (text, at) in [
            ("", 0),
            ("name", 4),
            ("{randm:12}.x A", 1),
            ("{random:64}.x A", 8),
            ("{random:12.x A", 0),
            ("www.{pick:a,b.{zone} A", 4),
            ("www.{random}}.x A", 12),
            ("www.x AB", 6),
            ("www.x {pick:A,AB}", 14),
            ("{pick:}.x A", 6),
            ("{zipf:nowhere} A", 6),
            ("www.x A 3", 8),
            ("www.x A *3 more", 11),
            ("a..x A", 0),
        ] {
            let error = parse(&[text]).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
        }
        let none = Surroundings { zone: "", ..around() };
        assert_eq!(Templates::parse(&["{zone} A".to_string()], &none, 1).unwrap_err().at, 1);
    }
}
