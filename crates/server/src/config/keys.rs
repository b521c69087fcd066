//! `[[key]]`: names, algorithms and secrets of TSIG; `allow-update`, `allow-transfer`, `primaries` and `notify`, which name
//! the keys.

use super::reader::{Reader, Table, Word};
use crate::stamp::Stamp;
use policy::{Grant, Grants};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::ops::Range;
use store::folder::read_file;
use transfer::allow::{Rule, Rules};
use transfer::remote::Remote;
use transfer::tsig::{Algorithm, Key, Keys};
use wire::Name;

/// Of `Keys::outdated`.
pub const OUTDATED: &str = "a key is of HMAC-MD5, which must not be used any more (RFC 8945)";
/// A secret shorter than this is guessed rather than known; RFC 8945 section 8 asks for as many octets as the hash has.
const SECRET_MIN: usize = 10;
/// A larger file is no secret.
const SECRET_FILE_MAX: u64 = 65_536;

pub fn all(r: &mut Reader<'_>, top: &Table<'_>) -> Keys {
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    for (t, span) in r.tables(top, "key") {
        let Some((key, at)) = one(r, t, span) else { continue };
        if seen.insert(key.name().to_vec()) {
            keys.push(key);
        } else {
            r.complain(at, format!("the key {} is written twice", key.text()), "remove one of them");
        }
    }
    Keys::new(keys)
}

fn one(r: &mut Reader<'_>, t: &Table<'_>, span: Range<usize>) -> Option<(Key, Range<usize>)> {
    r.keys("[[key]]", t, &["name", "algorithm", "secret-file"], &[]);
    for (key, example) in [("name", "xfr-key"), ("secret-file", "xfr.key")] {
        if !t.contains_key(key) {
            r.complain(span.clone(), format!("this key has no {key}"), format!("write {key} = \"{example}\""));
        }
    }
    let name = r.string(t, "name", "xfr-key");
    let (mut word, mut secret) = (r.string(t, "algorithm", "hmac-sha256"), Vec::new());
    if let Some(file) = r.string(t, "secret-file", "xfr.key")
        && let Some(read) = read_secret(r, &file)
    {
        let said = read.algorithm.map(|text| Word { text, span: file.span });
        (secret, word) = (read.octets, word.or(said.filter(|_| !t.contains_key("algorithm"))));
    }
    let algorithm = word.and_then(|word| algorithm(r, word)).unwrap_or(Algorithm::Sha256);
    let written = name?;
    let Ok(name) = Name::from_text(written.text.as_bytes(), Some(&Name::ROOT)) else {
        r.complain(written.span, format!("`{}` is no name of a key", written.text), "write name = \"xfr-key\"");
        return None;
    };
    // Also one of which something was wrong, which is said: whoever names it has done no wrong.
    Some((Key::new(&name, algorithm, &secret), written.span))
}

fn algorithm(r: &mut Reader<'_>, word: Word) -> Option<Algorithm> {
    let found = Algorithm::named(&word.text);
    if found.is_none() {
        let known: Vec<&str> = Algorithm::names().filter(|name| *name != Algorithm::Md5.name()).collect();
        let what = format!("there is no algorithm `{}`", word.text);
        r.complain(word.span, what, format!("write one of {}", known.join(", ")));
    }
    found
}

/// What a file of a secret says.
struct Secret {
    octets: Vec<u8>,
    algorithm: Option<String>,
}

/// The secret of a file: base64 alone, or what `tsig-keygen` writes, which also says the algorithm.
fn read_secret(r: &mut Reader<'_>, file: &Word) -> Option<Secret> {
    let path = r.path(file);
    r.sources.push((path.clone(), Stamp::of(&path)));
    let text = match read_file(&path, SECRET_FILE_MAX) {
        // What is no text is no base64, either.
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) => {
            let what = format!("the secret {} cannot be read: {e}", path.display());
            let instead = match e.kind() {
                ErrorKind::NotFound => "make one: head -c 32 /dev/urandom | base64 > FILE",
                ErrorKind::PermissionDenied => "let the server's user read it, and nobody else",
                _ => "",
            };
            r.complain(file.span.clone(), what, instead);
            return None;
        }
    };
    let found = zonefile::from_base64(quoted_secret(&text).unwrap_or(&text).as_bytes());
    let found = found.filter(|octets| octets.len() >= SECRET_MIN);
    if found.is_none() {
        let what = format!("{} holds no secret of at least {SECRET_MIN} octets in base64", path.display());
        r.complain(file.span.clone(), what, "make one: head -c 32 /dev/urandom | base64 > FILE");
    }
    found.map(|octets| Secret { octets, algorithm: said_algorithm(&text) })
}

/// What stands behind the word `algorithm`, up to the semicolon.
fn said_algorithm(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('{').and_then(|(_, statements)| statements.split_once("algorithm"))?;
    rest.split_once(';').map(|(said, _)| said.trim().trim_matches('"').to_string())
}

/// What stands in quotes behind the word `secret`.
fn quoted_secret(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('{').map_or(text, |(_, statements)| statements).split_once("secret")?;
    let (_, rest) = rest.split_once('"')?;
    rest.split_once('"').map(|(secret, _)| secret)
}

/// `allow-update` of a zone. `apex`: its own, if it has a name.
pub fn rules(r: &mut Reader<'_>, t: &Table<'_>, known: &Keys, apex: Option<&[u8]>) -> Rules {
    let mut rules = Vec::new();
    for word in r.strings(t, "allow-update", "key:ddns").unwrap_or_default() {
        match Rule::from_text(&word.text) {
            Ok(rule) if known.named(rule.key().bytes()).is_some() => match apex.and_then(|apex| rule.outside(apex)) {
                None => rules.push(rule),
                Some(bad) => r.complain(word.span, bad.what, bad.instead),
            },
            Ok(rule) => {
                r.complain(word.span, format!("there is no key {}", rule.key()), "write it as a [[key]]");
            }
            Err(bad) => r.complain(word.span, bad.what, bad.instead),
        }
    }
    Rules(rules)
}

/// `allow-transfer` of a zone. `"none"` grants nothing, as no word does.
pub fn grants(r: &mut Reader<'_>, t: &Table<'_>, known: &Keys) -> Grants {
    let mut grants = Vec::new();
    let words = r.strings(t, "allow-transfer", "192.0.2.1#xfr-key").unwrap_or_default();
    for word in words.into_iter().filter(|word| word.text != "none") {
        match Grant::from_text(&word.text) {
            Ok(grant) => match grant.key().filter(|key| known.named(key.bytes()).is_none()) {
                None => grants.push(grant),
                Some(key) => r.complain(word.span, format!("there is no key {key}"), "write it as a [[key]]"),
            },
            Err(bad) => r.complain(word.span, bad.what, bad.instead),
        }
    }
    Grants(grants)
}

/// `primaries` or `notify` of a zone.
pub fn remotes(r: &mut Reader<'_>, t: &Table<'_>, list: &str, known: &Keys) -> Vec<Remote> {
    let mut remotes: Vec<Remote> = Vec::new();
    for word in r.strings(t, list, "192.0.2.1#xfr-key").unwrap_or_default() {
        match Remote::from_text(&word.text) {
            Ok(remote) => match remote.key.as_ref().filter(|key| known.named(key.bytes()).is_none()) {
                Some(key) => r.complain(word.span, format!("there is no key {key}"), "write it as a [[key]]"),
                None if remotes.iter().any(|other| other.address == remote.address) => {
                    r.complain(word.span, format!("{} is written twice", remote.address), "remove one of them");
                }
                None => remotes.push(remote),
            },
            Err(bad) => r.complain(word.span, bad.what, bad.instead),
        }
    }
    remotes
}
