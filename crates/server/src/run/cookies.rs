//! What the secrets of server cookies are made of, kept in the data folder, so that clients' cookies outlive a restart.
//!
//! One line of 32 hexadecimal digits that nobody but the server's user may read. Servers that share an address share the file
//! (RFC 9018 section 5: each has to verify the cookies of the others). Removing it before a start makes a new one.

use crate::{log, random};
use policy::cookie::Secret;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use store::atomic::write_atomically;

const FILE: &str = "cookie.secret";

/// The secret of this folder; a new one if there is none. What cannot be kept is good for this run.
pub fn secret(folder: &Path) -> io::Result<Secret> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path).and_then(|text| parse(&text)) {
        Ok(secret) => return Ok(secret),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let secret = random::octets()?;
            if let Err(e) = keep(folder, &secret) {
                log::warn("the secret of cookies cannot be kept", &[("file", &path.display()), ("why", &e)]);
            }
            return Ok(secret);
        }
        Err(e) => log::warn("the secret of cookies cannot be used", &[("file", &path.display()), ("why", &e)]),
    }
    random::octets()
}

fn parse(text: &str) -> io::Result<Secret> {
    let digits = text.trim_end().as_bytes();
    let octet = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
    let octets: Option<Vec<u8>> = digits.chunks(2).map(octet).collect();
    let is_hex = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
    let secret = octets.filter(|_| is_hex).and_then(|o| o.try_into().ok());
    secret.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it is not one line of 32 hexadecimal digits"))
}

/// Whole or not at all: one that a crash has torn would not be mended.
fn keep(folder: &Path, secret: &Secret) -> io::Result<()> {
    let digits: String = secret.iter().map(|b| format!("{b:02x}")).collect();
    write_atomically(folder, FILE, None, |out| {
        out.set_mode(0o600)?;
        writeln!(out, "{digits}")
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_kept_for_its_owner_alone_and_a_damaged_one_is_left_to_him() {
        let folder = std::env::temp_dir().join(format!("dunlin-cookies-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let first = secret(&folder).unwrap();
        assert_eq!(secret(&folder).unwrap(), first);
        let path = folder.join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for damaged in ["", "00", "+0000000000000000000000000000000", "0123456789abcdef0123456789abcdef0"] {
            fs::write(&path, damaged).unwrap();
            assert_ne!(secret(&folder).unwrap(), first);
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
        fs::remove_file(&path).unwrap();
        assert_ne!(secret(&folder).unwrap(), first);
        fs::remove_dir_all(&folder).unwrap();
    }
}
