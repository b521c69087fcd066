//! What the kernel knows of the run: packets dropped on the target's side, where the target runs on this machine.

use std::net::{IpAddr, SocketAddr};

/// Packets dropped at the UDP sockets bound to the target's port; None where no such socket is on this machine.
pub fn drops_at(target: SocketAddr) -> Option<u64> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    let all = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    all.filter_map(|table| drops_in(&table, target)).reduce(|a, b| a + b)
}

fn drops_in(table: &str, target: SocketAddr) -> Option<u64> {
    let drops_of = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = fields.get(1)?.rsplit_once(':')?;
        let same = u16::from_str_radix(port, 16).ok()? == target.port() && may_be(address, target.ip());
        if same { fields.last()?.parse::<u64>().ok() } else { None }
    };
    table.lines().skip(1).filter_map(drops_of).reduce(|a, b| a + b)
}

/// The kernel prints addresses as words of its own byte order; all zeros is any address.
fn may_be(printed: &str, ip: IpAddr) -> bool {
    let words = |octets: &[u8]| -> String {
        octets.chunks_exact(4).map(|c| format!("{:08X}", u32::from_ne_bytes([c[0], c[1], c[2], c[3]]))).collect()
    };
    let own = match ip {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    printed == own || printed.bytes().all(|c| c == b'0')
}

/// What the machine calls its processor, and how many of them there are.
pub fn machine() -> (String, usize, String) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']).to_string();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (model, cpus, read("/proc/sys/kernel/osrelease").trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn drops_are_those_of_the_targets_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  10: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 17
  11: 00000000:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 5
  12: 0200007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 90
  13: 0100007F:14B5 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 900\n";
        assert_eq!(drops_in(table, "127.0.0.1:5300".parse().unwrap()), Some(22));
        assert_eq!(drops_in(table, "127.0.0.1:53".parse().unwrap()), None);
    }

    #[test]
    fn a_socket_of_ours_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            assert_eq!(drops_at(socket.local_addr().unwrap()), Some(0), "{address}");
        }
    }
}
