#!/usr/bin/env python3
"""A second reader of images, written from docs/image-format.md alone: prints every record in generic form (RFC 3597).

    image_reader.py IMAGE

Ends with 1, and says why, if the image is not what that page says. Needs nothing but Python 3.8.
"""
import struct
import sys

MASK = (1 << 64) - 1
PAGE = 4096
CUT, APEX, ABOVE, HEAD = 1, 2, 4, 128


def rotate(value, turn):
    return (value << turn | value >> (64 - turn)) & MASK


def siphash_1_3(key, octets):
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn():
        v[0] = (v[0] + v[1]) & MASK
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    whole = len(octets) // 8 * 8
    last = octets[whole:].ljust(7, b"\0") + bytes([len(octets) & 255])
    for (word,) in struct.iter_unpack("<Q", octets[:whole] + last):
        v[3] ^= word
        turn()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(3):
        turn()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh_round(lane, word):
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(octets, seed):
    stripes = len(octets) // 32 * 32
    if stripes:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        for words in struct.iter_unpack("<4Q", octets[:stripes]):
            lanes = [xxh_round(lane, word) for lane, word in zip(lanes, words)]
        h = sum(rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ xxh_round(0, lane)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(octets)) & MASK
    at = stripes
    while at + 8 <= len(octets):
        (word,) = struct.unpack_from("<Q", octets, at)
        h = (rotate(h ^ xxh_round(0, word), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(octets):
        (word,) = struct.unpack_from("<I", octets, at)
        h = (rotate(h ^ word * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for octet in octets[at:]:
        h = rotate(h ^ octet * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def name_hash(seed, name):
    labels, at = [], 0
    while name[at]:
        labels.append(name[at : at + 1 + name[at]])
        at += 1 + name[at]

    def mix(h, w):
        product = (h ^ w) * 0x9E3779B97F4A7C15
        return (product & MASK) ^ product >> 64

    h = seed
    for label in reversed(labels):
        pieces = [int.from_bytes(label[i : i + 8], "little") for i in range(0, len(label), 8)]
        for piece in pieces[:-1]:
            h = mix(h, piece)
        h = mix(rotate(h, 23), pieces[-1])
    return h


class Image:
    def __init__(self, octets):
        self.octets = octets
        need(len(octets) >= PAGE and octets[:8] == b"DunlinZ\n", "no image")
        version, checksum = self.numbers("II", 8)
        need(version == 10, "another version")
        h = siphash_1_3(b"dunlin image 1.0", octets[16:PAGE])
        need(checksum == (h ^ h >> 32) & 0xFFFFFFFF, "the header's checksum")
        fields = self.numbers("13Q", 16)
        self.length, self.seed, self.lines, self.names, self.zones_at, self.zones = fields[:6]
        self.root, self.records, self.sums_at, self.hosts_at, self.hosts = fields[8:]
        self.naming = set()
        need(self.length == len(octets), "the length")

    def numbers(self, form, at):
        return struct.unpack_from("<" + form, self.octets, at)

    def check_pages(self):
        for page, at in enumerate(range(0, self.sums_at, PAGE)):
            sum_, = self.numbers("Q", self.sums_at + 8 * page)
            found = xxh64(self.octets[at : min(at + PAGE, self.sums_at)], (self.seed + page) & MASK)
            need(sum_ == found, f"the checksum of page {page}")

    def find(self, name):
        """The references that the index has for a name's tag."""
        h = name_hash(self.seed, name)
        line, tag = (h >> 32) * self.lines >> 32, (h & 0xFFFF) or 1
        for step in range(16):
            at = PAGE + (line + step) % self.lines * 64
            tags, references = self.numbers("10H", at), self.numbers("10I", at + 24)
            yield from (r for t, r in zip(tags, references) if t == tag)
            if not self.octets[at + 20]:
                return

    def zone(self, number):
        apex, records, _ = self.numbers("III", self.zones_at + 12 * number)
        node = Node(self, apex * 4, b"")
        need(node.marks & APEX and node.zone == number, "a zone's apex")
        at, count, naming, with_addresses = apex * 4, 0, [], set()
        while at < apex * 4 + node.extent:
            this = Node(self, at, node.name)
            if not this.marks & (8 | ABOVE) and len(this.name) > 1:
                need(at // 4 in self.find(this.name), "a name of the index")
            for record in this.records():
                count += 1
                yield this.name, record
                host = host_of(record)
                if is_at_or_below(host, node.name) and not is_at_or_below(host, this.name):
                    naming.append((host, at // 4))
                if record[0] in (1, 28):
                    with_addresses.add(this.name)
            at = this.next
        need(at == apex * 4 + node.extent and count == records, "the end of a zone")
        for host, reference in naming:
            self.naming.add((name_hash(0, host) >> 32, reference))
            if host not in with_addresses:
                self.naming.add((name_hash(0, b"\x01*" + node.name) >> 32, reference))

    def lists(self):
        """Who names whom: keys of hosts, and references of nodes."""
        end = self.hosts_at + 8 * self.hosts
        hosts = [self.numbers("II", at) for at in range(self.hosts_at, end, 8)]
        need(all(a[0] < b[0] for a, b in zip(hosts, hosts[1:])), "the order of hosts")
        for (key, at), (_, next_) in zip(hosts, hosts[1:] + [(0, self.sums_at - end)]):
            gap = shift = reference = 0
            for octet in self.octets[end + at : end + next_]:
                gap, shift = gap | (octet & 127) << shift, shift + 7
                if octet < 128 and gap:
                    reference += gap
                    gap = shift = 0
                    yield key, reference


class Node:
    def __init__(self, image, at, apex):
        length, entries, self.marks = image.numbers("BBH", at)
        self.image = image
        place, head = at + 4, None
        if self.marks & HEAD:
            (head,), place = image.numbers("I", place), place + 4
        self.name = image.octets[place : place + length]
        if not self.marks & (APEX | ABOVE):
            self.name += apex
        place += length
        if self.marks & APEX:
            self.zone, _, _, extent = image.numbers("4I", place)
            self.extent, place = 4 * extent, place + 16
        directory = [image.numbers("HH", place + 4 * i) for i in range(entries)]
        place += 4 * entries
        elsewhere = [p for _, p in directory if p >= 0xFF00]
        references = image.numbers(f"{len(elsewhere)}I", place)
        place += 4 * len(elsewhere)
        units = [at + 4 * p if p < 0xFF00 else 4 * references[p - 0xFF00] for _, p in directory]
        if self.marks & (APEX | CUT):
            units.append(4 * head)
        self.units = [Unit(image, unit) for unit in units]
        ends = [unit.end for unit in self.units if unit.at > at]
        self.next = -(-max(ends + [place]) // 4) * 4

    def records(self):
        for unit in self.units:
            yield from unit.all_records(self.name)


class Unit:
    def __init__(self, image, at):
        self.at = at
        octets, self.count, marks = image.numbers("HBB", at)
        fixes, at = marks >> 4, at + 4
        if fixes == 15:
            (self.count, fixes), at = image.numbers("HH", at), at + 4
        parts = []
        for bit in (1, 2, 4, 8):
            if marks & bit:
                parts.append((bit, *image.numbers("HH", at)))
                at += 4
        self.fixes, gap, last = [], 0, 0
        for octet in image.octets[at : at + fixes]:
            gap += octet
            if octet < 255:
                last += gap
                self.fixes.append(last)
                gap = 0
        at += fixes
        self.octets = image.octets[at : at + octets]
        at += octets
        self.signatures, self.signed = b"", 0
        for bit, size, count in parts:
            if bit == 1:
                self.signatures, self.signed = image.octets[at : at + size], count
            at += size
        self.end = at

    def pointed(self, pointer, owner):
        """The name that a stored pointer means."""
        name = b""
        for _ in range(128):
            if pointer < 0xC010:
                shared = 0xC00C - pointer
                need(0 <= shared <= len(owner), "a pointer")
                return name + owner[len(owner) - shared :]
            at = pointer - 0xC010
            while self.octets[at] < 0xBF:
                size = self.octets[at] + 1
                name += self.octets[at : at + size]
                if size == 1:
                    return name
                at += size
            (pointer,) = struct.unpack_from(">H", self.octets, at)
        need(False, "pointers in a circle")

    def all_records(self, owner):
        yield from split(self.octets, self.count, self.fixes, lambda pointer: self.pointed(pointer, owner))
        yield from split(self.signatures, self.signed, [], None)


def split(octets, count, fixes, pointed):
    at = 0
    for _ in range(count):
        rtype, rclass, ttl, size = struct.unpack_from(">HHIH", octets, at + 2)
        at, end, rdata = at + 12, at + 12 + size, b""
        for fix in (f for f in fixes if at <= f < end):
            rdata += octets[at:fix] + pointed(struct.unpack_from(">H", octets, fix)[0])
            at = fix + 2
        yield rtype, rclass, ttl, rdata + octets[at:end]
        at = end


def host_of(record):
    """The host that a record names, or nothing."""
    rtype, _, _, rdata = record
    skip = {2: 0, 15: 2, 33: 6, 64: 2, 65: 2}.get(rtype, len(rdata))
    end = skip
    while end < len(rdata) and rdata[end]:
        end += 1 + rdata[end]
    return rdata[skip : end + 1].lower() if skip < end < len(rdata) else b""


def is_at_or_below(name, above):
    while len(name) > len(above):
        name = name[1 + name[0] :]
    return name == above and name != b""


def need(is_so, what):
    if not is_so:
        sys.exit(f"not as the page says: {what}")


def text(name):
    out, at = "", 0
    while name[at]:
        out += "".join(f"\\{octet:03}" for octet in name[at + 1 : at + 1 + name[at]]) + "."
        at += 1 + name[at]
    return out or "."


def main():
    with open(sys.argv[1], "rb") as file:
        image = Image(file.read())
    image.check_pages()
    total = 0
    for number in range(image.zones):
        for owner, (rtype, rclass, ttl, rdata) in image.zone(number):
            print(f"{text(owner)} {ttl} CLASS{rclass} TYPE{rtype} \\# {len(rdata)} {rdata.hex()}".rstrip())
            total += 1
    need(total == image.records, "the number of records")
    need(set(image.lists()) == image.naming, "who names whom")


main()
