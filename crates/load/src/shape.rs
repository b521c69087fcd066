//! What surrounds the question of each query: flags before it, OPT behind it (RFC 6891).

/// The longest name, type and class.
pub const QUESTION_MAX: usize = 255 + 4;
pub const HEADER: usize = 12;
const RD: u8 = 1;
const CD: u8 = 0x10;
const AD: u8 = 0x20;
const DO: u8 = 0x80;
const NSID: u16 = 3;
const COOKIE: u16 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub rd: bool,
    pub cd: bool,
    pub ad: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    pub size: u16,
    pub dnssec_ok: bool,
    pub nsid: bool,
    pub cookie: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub flags: Flags,
    pub edns: Option<Edns>,
}

/// The constant parts of all queries of one source.
#[derive(Clone, Debug)]
pub struct Frame {
    head: [u8; HEADER],
    tail: Vec<u8>,
}

impl Frame {
    /// The client cookie is the source's own (RFC 7873 section 4.1); `learned` is what the server gave it.
    pub fn new(shape: &Shape, client_cookie: u64, learned: &[u8]) -> Frame {
        let flags = shape.flags;
        let mut head = [0; HEADER];
        head[2] = if flags.rd { RD } else { 0 };
        head[3] = if flags.cd { CD } else { 0 } | if flags.ad { AD } else { 0 };
        head[5] = 1;
        head[11] = u8::from(shape.edns.is_some());
        Frame { head, tail: shape.edns.map(|edns| opt(&edns, client_cookie, learned)).unwrap_or_default() }
    }

    pub fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Completes a packet whose question stands behind the header already; says how long it is.
    #[inline]
    pub fn complete(&self, id: u16, question: usize, packet: &mut [u8]) -> usize {
        let id = id.to_be_bytes();
        packet[..HEADER].copy_from_slice(&self.head);
        packet[..2].copy_from_slice(&id);
        let end = HEADER + question + self.tail.len();
        packet[HEADER + question..end].copy_from_slice(&self.tail);
        end
    }
}

fn opt(edns: &Edns, client_cookie: u64, learned: &[u8]) -> Vec<u8> {
    let mut options = Vec::new();
    if edns.nsid {
        option(NSID, &[], &mut options);
    }
    if edns.cookie {
        option(COOKIE, &[&client_cookie.to_be_bytes(), learned].concat(), &mut options);
    }
    let mut out = vec![0, 0, 41];
    out.extend_from_slice(&edns.size.to_be_bytes());
    out.extend_from_slice(&[0, 0, if edns.dnssec_ok { DO } else { 0 }, 0]);
    out.extend_from_slice(&(options.len() as u16).to_be_bytes());
    out.extend_from_slice(&options);
    out
}

fn option(code: u16, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// The OPT of an answer: the upper bits of its rcode, and the server's part of the cookie that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    pub rcode_high: u8,
    pub server_cookie: Option<&'a [u8]>,
}

/// None where there is no OPT or the answer is malformed: a tester of load does not judge more than it must.
pub fn opt_of(answer: &[u8]) -> Option<Opt<'_>> {
    let count = |at: usize| answer.get(at..at + 2).map(|n| u16::from_be_bytes([n[0], n[1]]));
    let mut at = HEADER;
    for _ in 0..count(4)? {
        at = past_name(answer, at)? + 4;
    }
    let records = u32::from(count(6)?) + u32::from(count(8)?) + u32::from(count(10)?);
    for _ in 0..records {
        let fixed_at = past_name(answer, at)?;
        let fixed = answer.get(fixed_at..fixed_at + 10)?;
        let len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let rdata = answer.get(fixed_at + 10..fixed_at + 10 + len)?;
        if fixed[..2] == [0, 41] {
            return Some(Opt { rcode_high: fixed[4], server_cookie: server_cookie(rdata) });
        }
        at = fixed_at + 10 + len;
    }
    None
}

fn past_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            n if n >= 0xc0 => return Some(at + 2),
            n if n <= 63 => at += usize::from(n) + 1,
            _ => return None,
        }
    }
}

fn server_cookie(mut options: &[u8]) -> Option<&[u8]> {
    loop {
        let head = options.get(..4)?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let data = options.get(4..4 + len)?;
        if head[..2] == COOKIE.to_be_bytes() {
            return data.get(8..).filter(|c| !c.is_empty());
        }
        options = &options[4 + len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_opt_stand_where_they_belong() {
        let flags = Flags { rd: true, cd: true, ad: true };
        let edns = Some(Edns { size: 1232, dnssec_ok: true, nsid: true, cookie: true });
        let frame = Frame::new(&Shape { flags, edns }, 0x0102_0304_0506_0708, &[9; 8]);
        let mut packet = [0xff; 600];
        let question = b"\x01a\x00\x00\x01\x00\x01";
        packet[HEADER..HEADER + question.len()].copy_from_slice(question);
        let len = frame.complete(0xabcd, question.len(), &mut packet);
        let mut expect = vec![0xab, 0xcd, 1, 0x30, 0, 1, 0, 0, 0, 0, 0, 1];
        expect.extend_from_slice(question);
        expect.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 24, 0, 3, 0, 0, 0, 10, 0, 16]);
        expect.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(&packet[..len], expect);
        let opt = opt_of(&packet[..len]).unwrap();
        assert_eq!(opt, Opt { rcode_high: 0, server_cookie: Some(&[9; 8][..]) });
    }

    #[test]
    fn nothing_is_sent_that_was_not_asked_for() {
        let mut packet = [0xff; 600];
        let frame = Frame::new(&Shape::default(), 1, &[]);
        assert_eq!(frame.complete(1, 5, &mut packet), 17);
        assert_eq!(packet[..12], [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_cut_answer_has_no_opt_and_does_no_harm() {
        let edns = Some(Edns { size: 512, dnssec_ok: false, nsid: false, cookie: true });
        let frame = Frame::new(&Shape { flags: Flags::default(), edns }, 1, &[2; 16]);
        let mut packet = [0; 600];
        let len = frame.complete(1, 5, &mut packet);
        assert!(opt_of(&packet[..len]).is_some());
        assert!((0..len).all(|cut| opt_of(&packet[..cut]).is_none()));
    }
}
