//! DNS cookies (RFC 7873) in the form of RFC 9018: what a client sends back proves that it is where it says.

use std::net::IpAddr;
use wire::hash::siphash;

pub type Secret = [u8; 16];

/// A cookie is good for an hour, and may come from a clock 5 minutes ahead (RFC 9018 section 4.3).
const AGE_MAX_S: u32 = 3600;
const AHEAD_MAX_S: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A client cookie alone: the client wants to know our server cookie.
    New,
    Valid,
    /// Not ours, for another address, or too old.
    Bad,
}

const DAY_S: u64 = 86_400;

/// The secrets of the days, each made of the one that is kept: RFC 7873 section 7.1 wants a new one every 26 hours at the
/// latest, and so there is nothing to be handed over at midnight, at a restart, or between servers that share the kept one.
/// A cookie says when it was issued and thereby which secret it needs.
#[derive(Clone)]
pub struct Secrets {
    kept: Secret,
    /// Of the day last asked for, and of the day before.
    day: u64,
    recent: [Secret; 2],
}

impl Secrets {
    pub fn new(kept: Secret) -> Secrets {
        Secrets { kept, day: 0, recent: [of_day(&kept, 0), of_day(&kept, u64::MAX)] }
    }

    /// Moves on to the day of this moment; nearly always it is there.
    #[inline]
    pub fn turn(&mut self, now_s: u64) {
        let day = now_s / DAY_S;
        if day != self.day {
            self.day = day;
            self.recent = [of_day(&self.kept, day), of_day(&self.kept, day.wrapping_sub(1))];
        }
    }

    fn at(&self, time_s: u64) -> Secret {
        match self.day.wrapping_sub(time_s / DAY_S) {
            age @ 0..=1 => self.recent[age as usize],
            _ => of_day(&self.kept, time_s / DAY_S),
        }
    }

    /// Judges a cookie option's data: 8 octets, or 16 to 40.
    pub fn judge(&self, option: &[u8], client: IpAddr, now_s: u64) -> Verdict {
        let issued = option.get(12..16).and_then(|t| t.first_chunk()).map_or(0, |t| u32::from_be_bytes(*t));
        let age = i64::from((now_s as u32).wrapping_sub(issued) as i32);
        judge(option, client, now_s, &self.at(now_s.saturating_add_signed(-age)))
    }

    /// The cookie to send to a client now.
    pub fn issue(&self, client_cookie: [u8; 8], client: IpAddr, now_s: u64) -> [u8; 24] {
        issue(client_cookie, client, now_s, &self.at(now_s))
    }
}

fn of_day(kept: &Secret, day: u64) -> Secret {
    let half = |which: u8| {
        let mut input = [which; 9];
        input[..8].copy_from_slice(&day.to_le_bytes());
        siphash::<2, 4>(kept, &input).to_le_bytes()
    };
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&half(0));
    secret[8..].copy_from_slice(&half(1));
    secret
}

fn judge(option: &[u8], client: IpAddr, now_s: u64, secret: &Secret) -> Verdict {
    if option.len() == 8 {
        return Verdict::New;
    }
    let Some(cookie) = option.first_chunk::<24>().filter(|_| option.len() == 24) else { return Verdict::Bad };
    let issued = u32::from_be_bytes([cookie[12], cookie[13], cookie[14], cookie[15]]);
    // Serial number arithmetic (RFC 1982), as section 4.3 asks.
    let age = (now_s as u32).wrapping_sub(issued);
    let in_time = age <= AGE_MAX_S || age.wrapping_neg() <= AHEAD_MAX_S;
    if cookie[8] == 1 && in_time && hash(cookie, client, secret) == cookie[16..24] {
        Verdict::Valid
    } else {
        Verdict::Bad
    }
}

/// The cookie to send: the client's eight octets, version, reserved, time, hash.
fn issue(client_cookie: [u8; 8], client: IpAddr, now_s: u64, secret: &Secret) -> [u8; 24] {
    let mut cookie = [0; 24];
    cookie[..8].copy_from_slice(&client_cookie);
    cookie[8] = 1;
    cookie[12..16].copy_from_slice(&(now_s as u32).to_be_bytes());
    let sum = hash(&cookie, client, secret);
    cookie[16..].copy_from_slice(&sum);
    cookie
}

fn hash(cookie: &[u8; 24], client: IpAddr, secret: &Secret) -> [u8; 8] {
    let mut input = [0; 32];
    input[..16].copy_from_slice(&cookie[..16]);
    let len = match client {
        IpAddr::V4(v4) => {
            input[16..20].copy_from_slice(&v4.octets());
            20
        }
        IpAddr::V6(v6) => {
            input[16..32].copy_from_slice(&v6.octets());
            32
        }
    };
    siphash::<2, 4>(secret, &input[..len]).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret =
        [0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f, 0x48, 0xe7, 0xdc, 0x84, 0x9e, 0x37, 0xbf, 0xcf];

    /// RFC 9018 appendix A.1.
    #[test]
    fn a_cookie_is_that_of_the_rfc() {
        let client = "198.51.100.100".parse().unwrap();
        let cookie = issue([0x24, 0x64, 0xc4, 0xab, 0xcf, 0x10, 0xc9, 0x57], client, 1559731985, &SECRET);
        assert_eq!(cookie[8..], [1, 0, 0, 0, 0x5c, 0xf7, 0x9f, 0x11, 0x1f, 0x81, 0x30, 0xc3, 0xee, 0xe2, 0x94, 0x80]);
    }

    #[test]
    fn only_our_fresh_cookie_from_the_same_address_is_valid() {
        let (here, there) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let now = 1_800_000_000;
        let cookie = issue([7; 8], here, now, &SECRET);
        type Case<'a> = (&'a str, &'a [u8], IpAddr, u64, &'a Secret, Verdict);
        let table: &[Case<'_>] = &[
            ("at once", &cookie, here, now, &SECRET, Verdict::Valid),
            ("after 59 minutes", &cookie, here, now + 3540, &SECRET, Verdict::Valid),
            ("after an hour", &cookie, here, now + 3601, &SECRET, Verdict::Bad),
            ("from 4 minutes ahead", &cookie, here, now - 240, &SECRET, Verdict::Valid),
            ("from 6 minutes ahead", &cookie, here, now - 360, &SECRET, Verdict::Bad),
            ("from elsewhere", &cookie, there, now, &SECRET, Verdict::Bad),
            ("of another secret", &cookie, here, now, &[0; 16], Verdict::Bad),
            ("client part alone", &cookie[..8], here, now, &SECRET, Verdict::New),
            ("of another form", &cookie[..20], here, now, &SECRET, Verdict::Bad),
        ];
        for &(what, option, client, now, secret, expect) in table {
            assert_eq!(judge(option, client, now, secret), expect, "{what}");
        }
    }

    #[test]
    fn a_cookie_outlives_midnight_and_a_restart_but_not_its_hour() {
        let here = "192.0.2.1".parse().unwrap();
        let midnight = 20_000 * DAY_S;
        let secrets = |now_s| {
            let mut s = Secrets::new(SECRET);
            s.turn(now_s);
            s
        };
        for issued in [midnight - 1, midnight - 1800, midnight, midnight + 1800] {
            let cookie = secrets(issued).issue([7; 8], here, issued);
            for (later, expect) in [(0, Verdict::Valid), (3599, Verdict::Valid), (3601, Verdict::Bad)] {
                let now = issued + later;
                assert_eq!(secrets(now).judge(&cookie, here, now), expect, "{later} s after {issued}");
            }
            // Of a server whose clock is 200 s ahead.
            assert_eq!(secrets(issued - 200).judge(&cookie, here, issued - 200), Verdict::Valid, "{issued}");
        }
    }

    #[test]
    fn each_day_has_its_secret() {
        let all: Vec<Secret> = (0..100).map(|day| of_day(&SECRET, day)).collect();
        assert!((0..100).all(|i| !all[..i].contains(&all[i])) && !all.contains(&SECRET));
    }
}
