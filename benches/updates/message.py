"""message - DNS messages as the soak sends and reads them: what is asked, what is updated, what an answer says.

Records are (owner, type, TTL, data), data as a zone file has it; of types that only signed zones have, in hexadecimal.
Opens nothing.
"""
import collections, struct

TTL, IN, ANY_CLASS, NO_CLASS = 60, 1, 255, 254
A, NS, CNAME, SOA, MX, TXT, AAAA, OPT, DS, RRSIG, NSEC, DNSKEY, ANY = 1, 2, 5, 6, 15, 16, 28, 41, 43, 46, 47, 48, 255
TYPES = {A: "A", NS: "NS", CNAME: "CNAME", SOA: "SOA", MX: "MX", TXT: "TXT", AAAA: "AAAA", DS: "DS", RRSIG: "RRSIG",
         NSEC: "NSEC", DNSKEY: "DNSKEY"}
NOERROR, SERVFAIL, NXDOMAIN, REFUSED, YXDOMAIN = 0, 2, 3, 5, 6
QR, AA, RD, DO = 0x8000, 0x0400, 0x0100, 0x8000
UDP_SIZE = 4096

# `odd`: what is wrong with the header or the OPT, whatever the zone holds; nothing if all is as it should be.
Answer = collections.namedtuple("Answer", "rcode is_authoritative answer authority additional odd", defaults=[""])


class Question:
    """What is asked, and how."""

    def __init__(self, name, rtype, wants_recursion=False, has_edns=False, wants_dnssec=False):
        self.name, self.rtype, self.wants_recursion = name, rtype, wants_recursion
        self.has_edns, self.wants_dnssec = has_edns or wants_dnssec, wants_dnssec

    def octets(self, ident):
        head = struct.pack("!6H", ident, RD * self.wants_recursion, 1, 0, 0, int(self.has_edns))
        opt = struct.pack("!BHHHHH", 0, OPT, UDP_SIZE, 0, DO * self.wants_dnssec, 0) if self.has_edns else b""
        return head + wire(self.name) + struct.pack("!HH", self.rtype, IN) + opt

    def __str__(self):
        extras = " +rec" * self.wants_recursion + " +edns" * self.has_edns + " +dnssec" * self.wants_dnssec
        return f"{self.name} {TYPES[self.rtype]}{extras}"


def wire(name):
    name = name.rstrip(".")
    return b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0"


def rdata(rtype, text):
    """Octets of a record's data."""
    if rtype == A:
        return bytes(int(n) for n in text.split("."))
    if rtype == TXT:
        return bytes([len(text)]) + text.encode()
    if rtype == MX:
        preference, host = text.split()
        return struct.pack("!H", int(preference)) + wire(host)
    if rtype == SOA:
        first, second, *numbers = text.split()
        return wire(first) + wire(second) + struct.pack("!5I", *map(int, numbers))
    return wire(text) if rtype in (NS, CNAME) else bytes.fromhex(text)


def line(owner, rtype, text):
    """A line of a zone file."""
    is_plain = rtype not in (RRSIG, NSEC, DNSKEY)
    return f"{owner}. {TTL} IN {TYPES[rtype]} " + (text if is_plain else f"\\# {len(text) // 2} {text}") + "\n"


def record(owner, rtype, of_class, ttl, octets):
    return wire(owner) + struct.pack("!HHIH", rtype, of_class, ttl, len(octets)) + octets


def update(ident, zone, owners, names, prerequisite=b""):
    """An update, not signed yet: these owners have from now on what `names` says."""
    body, count = b"", 0
    for owner in owners:
        records = [(rtype, rdata(rtype, text)) for rtype, texts in names.get(owner, {}).items() for text in texts]
        body += record(owner, ANY, ANY_CLASS, 0, b"") + b"".join(record(owner, t, IN, TTL, octets) for t, octets in records)
        count += 1 + len(records)
    head = struct.pack("!6H", ident, 5 << 11, 1, int(bool(prerequisite)), count, 0)
    return head + wire(zone) + struct.pack("!HH", SOA, IN) + prerequisite + body


def name_at(message, at):
    """The name that stands there, in lower case and without the last dot, and where it ends."""
    labels, end = [], None
    for _ in range(128):
        length = message[at]
        if length >= 192:
            end = end or at + 2
            at = (length & 63) << 8 | message[at + 1]
        elif length:
            labels.append(message[at + 1:at + 1 + length].decode().lower())
            at += 1 + length
        else:
            return ".".join(labels), end or at + 1
    raise ValueError("a name without an end")


def text(message, rtype, at, length):
    if rtype == A:
        return ".".join(str(n) for n in message[at:at + length])
    if rtype == TXT:
        return message[at + 1:at + 1 + message[at]].decode()
    if rtype == MX:
        return f"{message[at] << 8 | message[at + 1]} {name_at(message, at + 2)[0]}."
    if rtype in (NS, CNAME):
        return name_at(message, at)[0] + "."
    if rtype == SOA:
        first, at = name_at(message, at)
        second, at = name_at(message, at)
        return f"{first}. {second}. " + " ".join(str(n) for n in struct.unpack("!5I", message[at:at + 20]))
    return message[at:at + length].hex()


def section(message, at, count):
    """Its records, the fixed part of an OPT in it, and where it ends. None of the records may be there twice."""
    records, opts = [], []
    for _ in range(count):
        owner, at = name_at(message, at)
        rtype, of_class, ttl, length = struct.unpack("!HHIH", message[at:at + 10])
        at += 10
        if rtype == OPT:
            opts.append((of_class, ttl))
        else:
            records.append((owner, TYPES.get(rtype, str(rtype)), ttl, text(message, rtype, at, length)))
        at += length
    return records, opts, at


def read(question, message):
    """What a reply to a question says. Anything that is not a message at all raises."""
    flags, *counts = struct.unpack("!5H", message[2:12])
    at, odd, sections, opts = name_at(message, 12)[1] + 4, [], [], []
    for count in counts[1:]:
        records, found, at = section(message, at, count)
        sections.append(frozenset(records))
        opts += found
        if len(sections[-1]) != len(records):
            odd.append("a record is there twice")
    if flags & 0xFFF0 & ~AA != QR | RD * question.wants_recursion:
        odd.append(f"flags {flags:#06x}")
    if [ttl for _, ttl in opts] != [DO * question.wants_dnssec] * question.has_edns:
        odd.append(f"OPT {opts}")
    if at != len(message):
        odd.append("something follows")
    return Answer(flags & 15, bool(flags & AA), *sections, ", ".join(odd))
