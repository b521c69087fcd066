//! HIP (RFC 8005 section 5): lengths come first on the wire and not at all in text.

use super::read::Reading;
use crate::encoding;
use crate::number;
use crate::problem::Flaw;
use crate::scan::Tokens;

/// Lengths, algorithm, tag and key; the rendezvous servers follow.
pub(crate) fn extent(rest: &[u8]) -> Option<usize> {
    let [tag_len @ 1..=255, _, high, low, ..] = rest else { return None };
    let key_len = u16::from_be_bytes([*high, *low]);
    (key_len > 0).then_some(4 + *tag_len as usize + key_len as usize)
}

pub(crate) fn push(octets: &[u8], out: &mut String) {
    let [tag_len, algorithm, _, _, rest @ ..] = octets else { return };
    let (tag, key) = rest.split_at_checked(*tag_len as usize).unwrap_or((rest, &[]));
    number::push((*algorithm).into(), out);
    out.push(' ');
    encoding::push_hex(tag, out);
    out.push(' ');
    encoding::push_base64(key, out);
}

pub(crate) fn read(tokens: &mut Tokens<'_, '_>, reading: &mut Reading<'_>) -> Result<(), Flaw> {
    let algorithm = number::decimal(&tokens.want("algorithm")?, "algorithm", 255)?;
    let head = reading.out.len();
    reading.out.extend([0, algorithm as u8, 0, 0]);
    let tag = tokens.want("host identity tag")?;
    let tag_len = reading.hex_token(&tag, "host identity tag")?;
    let key = tokens.want("public key")?;
    let key_len = reading.base64_token(&key, "public key")?;
    let tag_len =
        u8::try_from(tag_len).map_err(|_| Flaw::new(tag.at, "the host identity tag is longer than 255 octets"))?;
    let key_len =
        u16::try_from(key_len).map_err(|_| Flaw::new(key.at, "the public key is longer than 65535 octets"))?;
    let [high, low] = key_len.to_be_bytes();
    reading.out[head] = tag_len;
    reading.out[head + 2] = high;
    reading.out[head + 3] = low;
    Ok(())
}
