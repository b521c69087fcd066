//! JSON, written: what the control socket, `--json` and the HTTP side need.

use std::fmt::Write;

/// A value to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Ratio(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    pub fn text(value: impl ToString) -> Json {
        Json::Text(value.to_string())
    }

    pub fn list<T>(items: impl IntoIterator<Item = T>, each: impl FnMut(T) -> Json) -> Json {
        Json::List(items.into_iter().map(each).collect())
    }

    fn push(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Number(n) => drop(write!(out, "{n}")),
            Json::Ratio(x) if x.is_finite() => drop(write!(out, "{x:.4}")),
            Json::Ratio(_) => out.push_str("null"),
            Json::Text(t) => quote(t, out),
            Json::List(items) => series(out, ['[', ']'], items, |item, out| item.push(out)),
            Json::Object(members) => series(out, ['{', '}'], members, |(key, value), out| {
                quote(key, out);
                out.push(':');
                value.push(out);
            }),
        }
    }
}

impl std::fmt::Display for Json {
    /// On one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.push(&mut out);
        f.write_str(&out)
    }
}

fn series<T>(out: &mut String, brackets: [char; 2], items: &[T], mut each: impl FnMut(&T, &mut String)) {
    out.push(brackets[0]);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(brackets[1]);
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_text() {
        let value = Json::Object(vec![
            ("a", Json::Number(1)),
            ("b", Json::List(vec![Json::Null, Json::Bool(true), Json::Ratio(0.5), Json::Ratio(f64::NAN)])),
            ("c", Json::text("x\"\\\n\u{1}é")),
            ("d", Json::Object(vec![])),
        ]);
        assert_eq!(
            value.to_string(),
            "{\"a\":1,\"b\":[null,true,0.5000,null],\"c\":\"x\\\"\\\\\\n\\u0001é\",\"d\":{}}"
        );
    }
}
