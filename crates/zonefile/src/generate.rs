//! `$GENERATE`: a template and a range. The template is the text behind the range; `$` in it is the step's number,
//! `${offset,width,base}` the same shifted, padded and in another base, `$$` a dollar.

use crate::number;
use crate::problem::Flaw;
use crate::rtypes;
use crate::scan::{Shape, Token, Tokens};

pub(crate) const ADVICE: &str =
    "$ for the number, ${offset,width,base} with a base of d, o, x, X, n or N, $$ for a dollar";

pub(crate) fn range(token: &Token<'_>, steps_max: u32) -> Result<impl Iterator<Item = u32> + use<>, Flaw> {
    let advice = "first-last or first-last/step: 1-254/2";
    let flaw = |what: String| Flaw::new(token.at, what).instead(advice);
    let bad = || flaw("the range is not of numbers".to_string());
    let text = std::str::from_utf8(token.text).map_err(|_| bad())?;
    let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
    let (first, last) = ends.split_once('-').ok_or_else(bad)?;
    let parse = |text: &str| number::digits(text.as_bytes()).and_then(|n| u32::try_from(n).ok()).ok_or_else(bad);
    let (first, last, step) = (parse(first)?, parse(last)?, parse(step)?);
    if first > last || step == 0 {
        return Err(flaw("a range that never ends".to_string()));
    }
    if (last - first) / step >= steps_max {
        return Err(flaw(format!("a range of more than {steps_max} steps")));
    }
    Ok((first..=last).step_by(step as usize))
}

/// What is left of the entry, written as one line. Rdata in quotes, alone behind the type, is several fields: that is how BIND
/// has them written.
pub(crate) fn template(tokens: &mut Tokens<'_, '_>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut is_type = false;
    while let Some(token) = tokens.next() {
        if !text.is_empty() && token.shape != Shape::Glued {
            text.push(b' ');
        }
        let is_rdata = is_type && tokens.peek().is_none();
        let quote: &[u8] = if token.shape == Shape::Plain || is_rdata { b"" } else { b"\"" };
        text.extend_from_slice(quote);
        text.extend_from_slice(token.text);
        text.extend_from_slice(quote);
        is_type = token.shape == Shape::Plain && rtypes::from_mnemonic(token.text).is_some();
    }
    text
}

pub(crate) fn expand(template: &[u8], step: u32, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut rest = template;
    while let Some((&c, after)) = rest.split_first() {
        rest = after;
        match (c, after) {
            (b'\\', [escaped, after @ ..]) => {
                out.extend([c, *escaped]);
                rest = after;
            }
            (b'$', [b'$', after @ ..]) => {
                out.extend(b"\\$");
                rest = after;
            }
            (b'$', [b'{', after @ ..]) => {
                let end = after.iter().position(|&c| c == b'}').ok_or("a '${' without its '}'")?;
                let (modifier, after) = after.split_at(end);
                rest = after.get(1..).unwrap_or(&[]);
                out.extend(modified(modifier, step)?.bytes());
            }
            (b'$', _) => out.extend(step.to_string().bytes()),
            _ => out.push(c),
        }
    }
    Ok(())
}

fn modified(modifier: &[u8], step: u32) -> Result<String, &'static str> {
    let text = std::str::from_utf8(modifier).map_err(|_| "a modifier that is no text")?;
    let mut parts = text.split(',');
    let offset = parts.next().unwrap_or("").parse::<i32>().map_err(|_| "an offset that is no number")?;
    let width = parts.next().unwrap_or("0").parse::<u8>().map_err(|_| "a width that is no number from 0 to 255")?;
    let base = parts.next().unwrap_or("d");
    if parts.next().is_some() {
        return Err("a modifier of more than three parts");
    }
    let n = i64::from(step) + i64::from(offset);
    let n = u64::try_from(n).map_err(|_| "an offset that makes the number negative")?;
    let width = usize::from(width);
    match base {
        "d" => Ok(format!("{n:0width$}")),
        "o" => Ok(format!("{n:0width$o}")),
        "x" => Ok(format!("{n:0width$x}")),
        "X" => Ok(format!("{n:0width$X}")),
        "n" => Ok(nibbles(n, width)),
        "N" => Ok(nibbles(n, width).to_ascii_uppercase()),
        _ => Err("a base other than d, o, x, X, n and N"),
    }
}

/// Hexadecimal digits, the lowest first, with dots between. The width counts the dots, and an even one ends with a dot, as in
/// BIND, whose directive this is.
fn nibbles(mut n: u64, width: usize) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from_digit((n & 15) as u32, 16).unwrap_or('0'));
        n >>= 4;
        if n == 0 && text.len() >= width {
            return text;
        }
        text.push('.');
        if n == 0 && text.len() >= width {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_expand() {
        let table = [
            ("host-$", 7, "host-7"),
            ("$$", 7, "\\$"),
            ("\\$", 7, "\\$"),
            ("${0,3}", 7, "007"),
            ("${-3}", 7, "4"),
            ("${8,4,x}", 7, "000f"),
            ("${8,2,X}", 7, "0F"),
            ("${1,0,o}", 7, "10"),
            ("${0,7,n}", 0x1a, "a.1.0.0"),
            ("${0,0,N}", 0x1a, "A.1"),
            ("${0,4,n}", 1, "1.0."),
            ("${0,6,N}", 300, "C.2.1."),
            ("$.$", 12, "12.12"),
        ];
        for (template, step, want) in table {
            let mut out = Vec::new();
            assert_eq!(expand(template.as_bytes(), step, &mut out), Ok(()));
            assert_eq!(String::from_utf8(out).unwrap(), want, "{template}");
        }
    }

    #[test]
    fn templates_that_are_wrong() {
        for template in ["${", "${}", "${x}", "${1,x}", "${1,300}", "${1,1,q}", "${1,1,d,1}", "${-8}"] {
            assert!(expand(template.as_bytes(), 7, &mut Vec::new()).is_err(), "{template}");
        }
    }

    #[test]
    fn ranges() {
        let table: [(&str, Option<&[u32]>); 10] = [
            ("1-3", Some(&[1, 2, 3])),
            ("0-5/2", Some(&[0, 2, 4])),
            ("4294967295-4294967295", Some(&[u32::MAX])),
            ("3-1", None),
            ("1-3/0", None),
            ("1", None),
            ("-1-3", None),
            ("1-x", None),
            ("0-100", None),
            ("0-4294967296", None),
        ];
        for (text, want) in table {
            let token = Token { text: text.as_bytes(), at: 0, shape: Shape::Plain };
            let steps = range(&token, 100).ok().map(|steps| steps.collect::<Vec<_>>());
            assert_eq!(steps.as_deref(), want, "{text}");
        }
    }
}
