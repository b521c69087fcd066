//! One Rust source, scanned far enough to tell code from comments and strings, and product from tests. No parser: it
//! knows tokens and braces, which is all the rules need.

pub struct Source {
    /// Relative to the root of the checkout.
    pub path: String,
    /// The file as it is.
    pub text: String,
    /// The file with comments and the insides of strings blanked out; as long as `text`, the same lines.
    pub code: String,
    /// `code` with everything under `#[cfg(test)]` and `#[test]` blanked out as well.
    pub product: String,
    /// The whole file is compiled for tests only.
    pub only_tests: bool,
}

impl Source {
    pub fn new(path: String, text: String) -> Source {
        let code = blank_comments_and_strings(&text);
        let product = blank_tests(&code);
        let only_tests = ["/tests/", "/benches/", "/examples/"].iter().any(|f| path.contains(f));
        Source { path, text, code, product, only_tests }
    }

    /// The crate's name: the folder below crates/.
    pub fn krate(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|p| p.split('/').next()).unwrap_or("")
    }

    /// What of the file ends up in the product.
    pub fn product(&self) -> &str {
        if self.only_tests { "" } else { &self.product }
    }

    /// Paths, without ending, of the files that are modules declared under `#[cfg(test)]`.
    pub fn test_modules(&self) -> Vec<String> {
        let folder = self.module_folder();
        let in_tests = |at: &usize| self.product.as_bytes()[*at] == b' ';
        words(&self.code, "mod")
            .into_iter()
            .filter(in_tests)
            .filter_map(|at| file_module(&self.code[at..]))
            .map(|name| format!("{folder}/{name}"))
            .collect()
    }

    /// The folder in which this file's modules are looked for.
    pub fn module_folder(&self) -> String {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let is_root = matches!(file, "lib.rs" | "main.rs" | "mod.rs" | "build.rs");
        let stands_alone = ["/tests", "/benches", "/examples", "/bin"].iter().any(|f| folder.ends_with(f));
        if is_root || stands_alone { folder.to_owned() } else { self.path.trim_end_matches(".rs").to_owned() }
    }

    /// "path:line" of a place in the text.
    pub fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.text[..at].matches('\n').count() + 1)
    }
}

/// The name in `mod name;` at the head of the code; None for a module with a body.
pub fn file_module(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("mod")?.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest[end..].trim_start().starts_with(';').then_some(&rest[..end])
}

/// Where `word` stands as a word of its own.
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone =
        |at: &usize| !is_part(code[..*at].chars().next_back()) && !is_part(code[at + word.len()..].chars().next());
    code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
}

fn blank(out: &mut [u8], from: usize, to: usize) {
    let to = to.min(out.len());
    out[from.min(to)..to].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
}

fn blank_comments_and_strings(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = match rest {
            [b'/', b'/', ..] => at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => at + block_comment(rest),
            [b'"', ..] => at + string(rest),
            [b'r', ..] if !continues_a_word(bytes, at) => match raw_string(rest) {
                Some(n) => at + n,
                None => at,
            },
            [b'\'', ..] => match char_literal(rest) {
                Some(n) => at + n,
                None => at,
            },
            _ => at,
        };
        if end > at {
            blank(&mut out, at, end);
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("whole tokens were blanked")
}

/// `br"…"` begins a raw string at its r; `for"` does not.
fn continues_a_word(bytes: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map(|i| bytes[i]);
    let part = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let prefixed = matches!(before(1), Some(b'b' | b'c')) && !part(before(2));
    part(before(1)) && !prefixed
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = &rest[2 + hashes..];
    let n = body.windows(close.len()).position(|w| w == close).unwrap_or(body.len());
    Some(2 + hashes + n + close.len())
}

/// A character, and not the beginning of a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|&b| b == b'\'')?;
        return Some(close + 4);
    }
    let width = std::str::from_utf8(&rest[1..rest.len().min(5)]).map_or_else(|e| e.valid_up_to(), str::len);
    let first = std::str::from_utf8(&rest[1..1 + width]).ok()?.chars().next()?;
    (rest.get(1 + first.len_utf8()) == Some(&b'\'')).then_some(first.len_utf8() + 2)
}

fn blank_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    for mark in ["#[cfg(test)]", "#[test]", "#[cfg(all(test,", "#[cfg(any(test,"] {
        for (at, _) in code.match_indices(mark) {
            blank(&mut out, at, at + item_len(&code[at..]));
        }
    }
    String::from_utf8(out).expect("whole items were blanked")
}

/// Octets of the item at the head of the code, its attributes included: up to its closing brace or semicolon.
pub fn item_len(code: &str) -> usize {
    let (mut braces, mut others) = (0i32, 0i32);
    for (at, b) in code.bytes().enumerate() {
        match b {
            b'{' => braces += 1,
            b'}' => braces -= 1,
            b'(' | b'[' => others += 1,
            b')' | b']' => others -= 1,
            _ => {}
        }
        if (b == b';' && braces == 0 && others == 0) || (b == b'}' && braces <= 0) {
            return at + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x \\\" y\")", "f(        )"),
            ("f(r#\"a\"b\"#, 1)", "f(        , 1)"),
            ("br\"x\" for r in", "b     for r in"),
            ("'a' 'x '\\'' 'b", "    'x      'b"),
            ("&'a str", "&'a str"),
            ("b'\"' + b'\\\\' + 1", "b    + b     + 1"),
        ] {
            assert_eq!(blank_comments_and_strings(text), code, "{text}");
        }
    }

    #[test]
    fn tests_are_no_product() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c(); } }\nfn d() {}\n#[cfg(test)]\nmod e;\nfn f() {}";
        let product = blank_tests(code);
        let left: Vec<&str> = product.split_whitespace().collect();
        assert_eq!(left.join(" "), "fn a() {} fn d() {} fn f() {}");
    }

    #[test]
    fn a_word_stands_alone() {
        assert_eq!(words("sun sunk un_sun sun", "sun"), [0, 16]);
    }

    #[test]
    fn a_module_of_the_tests_is_known_as_such() {
        let source = Source::new("crates/x/src/a.rs".into(), "#[cfg(test)]\nmod tests;\nmod b;\n".into());
        assert_eq!(source.test_modules(), ["crates/x/src/a/tests"]);
    }
}
