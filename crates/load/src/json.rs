//! JSON as a value: what reports are written in and read back from.

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Why a text is no JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    pub line: usize,
    pub column: usize,
    pub why: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.why)
    }
}

/// Deeper nesting is refused: the reader calls itself.
const DEPTH_MAX: usize = 64;

impl Json {
    pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }

    pub fn list<T>(items: impl IntoIterator<Item = T>, each: impl FnMut(T) -> Json) -> Json {
        Json::List(items.into_iter().map(each).collect())
    }

    /// The member of an object; Null where there is none.
    pub fn at(&self, key: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map_or(&Json::Null, |(_, v)| v),
            _ => &Json::Null,
        }
    }

    pub fn number(&self) -> Option<f64> {
        if let Json::Number(n) = self { Some(*n) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    pub fn items(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }

    pub fn members(&self) -> &[(String, Json)] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    pub fn parse(text: &str) -> Result<Json, NotJson> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0).and_then(|value| reader.end().map(|()| value));
        value.map_err(|why| {
            let before = &text[..floor(text, reader.at)];
            let line_start = before.rfind('\n').map_or(0, |i| i + 1);
            NotJson { line: before.matches('\n').count() + 1, column: reader.at - line_start + 1, why }
        })
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl From<f64> for Json {
    fn from(n: f64) -> Json {
        if n.is_finite() { Json::Number(n) } else { Json::Null }
    }
}
impl From<u64> for Json {
    fn from(n: u64) -> Json {
        Json::Number(n as f64)
    }
}
impl From<usize> for Json {
    fn from(n: usize) -> Json {
        Json::Number(n as f64)
    }
}
impl From<bool> for Json {
    fn from(b: bool) -> Json {
        Json::Bool(b)
    }
}
impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_string())
    }
}
impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl fmt::Display for Json {
    /// One member of the outermost object a line, the rest close together: people and programs can both read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Object(members) if !members.is_empty() => {
                f.write_str("{\n")?;
                for (i, (key, value)) in members.iter().enumerate() {
                    f.write_str("  ")?;
                    quoted(key, f)?;
                    f.write_str(": ")?;
                    compact(value, f)?;
                    f.write_str(if i + 1 < members.len() { ",\n" } else { "\n}" })?;
                }
                Ok(())
            }
            other => compact(other, f),
        }
    }
}

fn compact(value: &Json, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Json::Null => f.write_str("null"),
        Json::Bool(b) => write!(f, "{b}"),
        Json::Number(n) => write!(f, "{n}"),
        Json::Text(text) => quoted(text, f),
        Json::List(items) => {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { ", " })?;
                compact(item, f)?;
            }
            f.write_str("]")
        }
        Json::Object(members) => {
            f.write_str("{")?;
            for (i, (key, value)) in members.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { ", " })?;
                quoted(key, f)?;
                f.write_str(": ")?;
                compact(value, f)?;
            }
            f.write_str("}")
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn end(&mut self) -> Result<(), &'static str> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err("something stands behind the end") }
    }

    fn eat(&mut self, c: u8) -> bool {
        self.blanks();
        let found = self.text.as_bytes().get(self.at) == Some(&c);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, &'static str> {
        if depth > DEPTH_MAX {
            return Err("nested too deeply");
        }
        self.blanks();
        match self.text.as_bytes().get(self.at) {
            Some(b'{') => self.members(depth),
            Some(b'[') => self.elements(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => self.digits(),
            None => Err("the end came too early"),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, &'static str> {
        if !self.text[self.at..].starts_with(word) {
            return Err("no JSON value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> Result<Json, &'static str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| "no JSON value")?;
        self.at += end;
        Ok(Json::from(number))
    }

    fn members(&mut self, depth: usize) -> Result<Json, &'static str> {
        self.at += 1;
        let mut members = Vec::new();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            if self.text.as_bytes().get(self.at) != Some(&b'"') {
                return Err("a key in quotation marks belongs here");
            }
            let key = self.string()?;
            if !self.eat(b':') {
                return Err("a colon belongs here");
            }
            members.push((key, self.value(depth + 1)?));
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.eat(b',') {
                return Err("a comma or a brace belongs here");
            }
        }
    }

    fn elements(&mut self, depth: usize) -> Result<Json, &'static str> {
        self.at += 1;
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.eat(b']') {
                return Ok(Json::List(items));
            }
            if !self.eat(b',') {
                return Err("a comma or a bracket belongs here");
            }
        }
    }

    fn string(&mut self) -> Result<String, &'static str> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let stop = rest.find(['"', '\\']).ok_or("a text is never closed")?;
            out.push_str(&rest[..stop]);
            self.at += stop + 1;
            if rest.as_bytes()[stop] == b'"' {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }

    /// Pairs of surrogates become the replacement character: our reports hold none.
    fn escape(&mut self) -> Result<char, &'static str> {
        let c = *self.text.as_bytes().get(self.at).ok_or("the end came too early")?;
        self.at += 1;
        Ok(match c {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(c),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4).ok_or("four digits belong here")?;
                let code = u32::from_str_radix(digits, 16).map_err(|_| "four digits belong here")?;
                self.at += 4;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err("no such escape"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let value = Json::object([
            ("text", Json::from("a \"quoted\" \\ line\nwith ü and \u{1}")),
            ("numbers", Json::list([0.0, 1.5, -3.0, 4e9, 0.001], Json::from)),
            ("flags", Json::List(vec![Json::Bool(true), Json::Bool(false), Json::Null])),
            ("empty", Json::List(vec![Json::Object(vec![]), Json::List(vec![])])),
        ]);
        assert_eq!(Json::parse(&value.to_string()).unwrap(), value);
        assert_eq!(value.at("numbers").items()[3].number(), Some(4e9));
        assert_eq!(value.at("nothing").at("here"), &Json::Null);
    }

    #[test]
    fn what_is_no_json_says_where() {
        let deep = "[".repeat(100);
        for (text, line, column) in [
            ("", 1, 1),
            ("{\n \"a\" 1}", 2, 6),
            ("[1, ]", 1, 5),
            ("[1] 2", 1, 5),
            ("{\"a\": tru}", 1, 7),
            ("\"open", 1, 2),
            ("\"\\x\"", 1, 4),
            (&deep, 1, 66),
        ] {
            let error = Json::parse(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text} {error}");
        }
    }
}
