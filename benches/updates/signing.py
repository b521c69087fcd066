"""signing - makes a zone look signed: keys, signatures and NSEC of the right form and the right place, as a signer elsewhere
would (RFC 4034). The signatures verify nothing: the server does not, and a digest in their place shows which version it is of.
"""
import hashlib, struct, time
from message import DNSKEY, NS, NSEC, RRSIG, TTL, rdata, wire

ALGORITHM, FLAGS, DAY_S = 13, 257, 86_400
KEY = struct.pack("!HBB", FLAGS, 3, ALGORITHM) + hashlib.sha512(b"key").digest()
TAG = sum(octet << 8 * (1 - i % 2) for i, octet in enumerate(KEY))
TAG = TAG + (TAG >> 16) & 0xFFFF
INCEPTION = int(time.time()) - DAY_S


def order(name):
    """As names are ordered (RFC 4034 section 6.1)."""
    return [label.encode() for label in reversed(name.split("."))]


def bitmap(rtypes):
    """RFC 4034 section 4.1.2, for types below 256."""
    bits = bytearray(max(rtypes) // 8 + 1)
    for rtype in rtypes:
        bits[rtype // 8] |= 128 >> rtype % 8
    return bytes([0, len(bits)]) + bytes(bits)


def signature(apex, owner, rtype, texts, serial):
    labels = len(owner.removeprefix("*.").split("."))
    fixed = struct.pack("!HBBIIIH", rtype, ALGORITHM, labels, TTL, INCEPTION + 60 * DAY_S, INCEPTION, TAG)
    covered = b"".join(sorted(rdata(rtype, text) for text in texts))
    digest = hashlib.sha512(wire(owner) + fixed + covered + struct.pack("!I", serial)).digest()
    return (fixed + wire(apex) + digest).hex()


def signed(apex, names, serial):
    """The names with their signatures beside them, and those that have an NSEC, in their order."""
    cuts = {name for name, sets in names.items() if NS in sets and name != apex}
    is_below = lambda name: any(name.endswith("." + cut) for cut in cuts)
    names = {**names, apex: {**names[apex], DNSKEY: frozenset([KEY.hex()])}}
    chain = sorted((name for name, sets in names.items() if sets and not is_below(name)), key=order)
    after = dict(zip(chain, chain[1:] + chain[:1]))
    made = dict(names)
    for name in chain:
        sets = {**names[name]}
        sets[NSEC] = frozenset([(wire(after[name]) + bitmap([*sets, RRSIG, NSEC])).hex()])
        own = [rtype for rtype in sets if rtype == NSEC or name not in cuts]
        sets[RRSIG] = frozenset(signature(apex, name, rtype, sets[rtype], serial) for rtype in own)
        made[name] = sets
    return made, chain
