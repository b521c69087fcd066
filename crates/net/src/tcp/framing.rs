//! Messages in a stream: two octets of length, then the message (RFC 1035 section 4.2.2).

/// Octets of the length.
pub(super) const PREFIX: usize = 2;

/// What stands at the start of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Message(&'a [u8]),
    /// The message has begun, or nothing is there.
    Part,
    /// A message of length zero: nobody who speaks the protocol sends that.
    Empty,
}

pub(super) fn next(stream: &[u8]) -> Next<'_> {
    let Some((prefix, rest)) = stream.split_first_chunk::<PREFIX>() else { return Next::Part };
    match usize::from(u16::from_be_bytes(*prefix)) {
        0 => Next::Empty,
        len => rest.get(..len).map_or(Next::Part, Next::Message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_a_stream() {
        let cases: [(&[u8], Next<'_>); 7] = [
            (b"", Next::Part),
            (b"\0", Next::Part),
            (b"\0\x03", Next::Part),
            (b"\0\x03ab", Next::Part),
            (b"\0\x03abc", Next::Message(b"abc")),
            (b"\0\x02abc", Next::Message(b"ab")),
            (b"\0\0abc", Next::Empty),
        ];
        for (stream, expect) in cases {
            assert_eq!(next(stream), expect, "{stream:?}");
        }
    }
}
