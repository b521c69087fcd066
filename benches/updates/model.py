"""model - zones as they should be: what was asked for, what may be served, and what each version answers. A naive twin of
the server's lookup (RFC 1034 section 4.3.2, RFC 4592, RFC 4035 section 3.1), in plain dictionaries.

A zone has two tracks of versions, which change different names: what updates make of it, below `u`, and what edits of its
file make of it, below `e`. Of each track only the versions between `lo` and `hi` may be served: `hi` was asked for last;
`lo` was acknowledged, or an answer has shown it, and nothing older may come back.

Opens nothing.
"""
import bisect, collections
from message import A, CNAME, DS, MX, NOERROR, NS, NXDOMAIN, REFUSED, RRSIG, NSEC, SOA, TTL, TXT, TYPES, Answer, line
import signing

# Versions of a track that are remembered: many times what may change while a query is under way.
REMEMBERED = 256


class Track:
    def __init__(self, first):
        self.versions, self.lo, self.hi = {0: first}, 0, 0

    def newest(self):
        return self.versions[self.hi]

    def begin(self, version):
        """From now on this may be served."""
        self.versions[self.hi + 1] = version
        self.hi += 1
        self.versions.pop(self.hi - REMEMBERED, None)
        return self.hi

    def last(self):
        """The newest version in which the zone is there."""
        return self.versions[max(n for n, version in self.versions.items() if version is not None)]

    def settle(self, number):
        """Nothing before this may be served."""
        self.lo = max(self.lo, number)

    def is_settled(self):
        return self.lo == self.hi


class Version:
    """Of one track: its names, each with its RRsets {type: frozenset of rdata as text}, and its share of the serial."""

    def __init__(self, names, serial):
        self.names, self.serial = names, serial


class Zone:
    def __init__(self, name, kind, number, names, updated, serial, above=None):
        self.name, self.kind, self.number = name, kind, number
        # The zone that this one lies in, and the one that lies in this one.
        self.above, self.below = above, None
        if above:
            above.below = self
        self.u, self.e = Track(Version(updated, 0)), Track(Version(names, serial))
        # An update is open; none is to be sent; the first has not been taken yet; all are to be refused.
        self.is_open, self.is_paused, self.is_new, self.is_frozen = False, False, kind == "toggled", False
        # What its file says is not to be served; nobody may ask.
        self.is_wrong, self.is_closed = False, False
        # The file as it was edited last; what was done last, for people.
        self.edited, self.deeds = None, collections.deque(maxlen=8)
        self.contents = {}

    def is_there(self):
        return self.e.newest() is not None

    def is_settled(self):
        return self.u.is_settled() and self.e.is_settled() and not self.is_open

    def content(self, u, e):
        """All names of a version; None: the zone is not served."""
        if self.e.versions[e] is None:
            return None
        content = self.contents.get((u, e))
        if content is None:
            if len(self.contents) > 64:
                self.contents = {}
            content = self.contents[u, e] = self.joined(self.u.versions[u], self.e.versions[e])
        return content

    def newest(self):
        return self.content(self.u.hi, self.e.hi)

    def joined(self, updated, edited):
        serial = updated.serial + edited.serial
        soa = f"ns.{self.name}. hostmaster.{self.name}. {serial} 3600 600 86400 {TTL}"
        apex = {SOA: frozenset([soa]), NS: frozenset([f"ns.{self.name}."])}
        names, chain = {self.name: apex, **edited.names, **updated.names}, None
        if self.kind == "signed":
            names, chain = signing.signed(self.name, names, serial)
        return Content(self.name, names, chain)

    def route(self, question):
        """Who answers a question about a name of this zone: the first of these zones that is served."""
        inner, outer = (self.below, self) if self.below else (self, self.above)
        if not outer:
            return [inner]
        if question.name != inner.name and not question.name.endswith("." + inner.name):
            return [outer]
        # The parent side has the DS, or says that there is none (RFC 4035 section 3.1.4.1).
        return [outer, inner] if question.rtype == DS and question.name == inner.name else [inner, outer]


REFUSAL = Answer(REFUSED, False, frozenset(), frozenset(), frozenset())
NOTHING = frozenset()


def fits(route, question, answer, otherwise=REFUSAL):
    """The versions that give such an answer, each as {zone: (u, e)}: of the zones that have a part in it. `route`: zones, each
    with the oldest versions that may be served. `otherwise`: what is answered if none of them is."""
    if not route:
        return [{}] if answer == otherwise else []
    ((zone, lo_u, lo_e), *others), found = route, []
    for e in range(lo_e, zone.e.hi + 1):
        for u in range(lo_u, zone.u.hi + 1):
            content = zone.content(u, e)
            right = content.answer(question) if content else otherwise
            if content is None:
                found += [{zone: (u, e), **rest} for rest in fits(others, question, answer, right)]
            elif right == answer:
                found.append({zone: (u, e)})
    return found


class Content:
    """`chain`: of a signed zone, the names with NSEC in their order."""

    def __init__(self, apex, names, chain=None):
        self.apex, self.names, self.chain = apex, names, chain
        self.nodes = {n for name in names for n in above(name, apex)}
        self.places = chain and [signing.order(name) for name in chain]
        self.signatures = {}
        for owner, sets in names.items() if chain else ():
            for text in sets.get(RRSIG, ()):
                self.signatures[owner, int(text[:4], 16)] = text

    def records(self, owner, rtype, with_signatures, wanted=None):
        """An RRset with its signature, if that is wanted; of `wanted`, a wildcard, under the name of `owner`."""
        source = wanted or owner
        found = frozenset((owner, TYPES[rtype], TTL, text) for text in self.names.get(source, {}).get(rtype, ()))
        signature = self.signatures.get((source, rtype)) if with_signatures and found else None
        return found | {(owner, "RRSIG", TTL, signature)} if signature else found

    def proof(self, name, with_signatures):
        """The NSEC of the name, or of the one before it."""
        if not with_signatures:
            return NOTHING
        owner = self.chain[bisect.bisect(self.places, signing.order(name)) - 1]
        return self.records(owner, NSEC, True)

    def addresses(self, rtype, owner, with_signatures):
        """Of the hosts that an RRset names (RFC 1035 section 3.3)."""
        texts = self.names[owner][rtype] if rtype in (NS, MX) else ()
        hosts = [text.split()[-1].rstrip(".") for text in texts]
        return NOTHING.union(*(self.records(host, A, with_signatures) for host in hosts))

    def answer(self, question):
        """What is answered if this is served."""
        name, rtype, signed = question.name, question.rtype, question.wants_dnssec and self.chain is not None
        chain = proofs = NOTHING
        while True:
            found = self.cut_above(name, rtype)
            if found:
                authority = self.records(found, NS, False) | self.proof(found, signed)
                return Answer(NOERROR, bool(chain), chain, proofs | authority, self.addresses(NS, found, False))
            source, encloser = self.source(name)
            denied = self.records(self.apex, SOA, signed) | self.proof(name, signed) | proofs
            if source is None:
                return Answer(NXDOMAIN, True, chain, denied | self.proof(f"*.{encloser}", signed), NOTHING)
            sets = self.names.get(source, {})
            is_alias = CNAME in sets and rtype != CNAME
            found = self.records(name, CNAME if is_alias else rtype, signed, source)
            if not found:
                return Answer(NOERROR, True, chain, denied | self.proof(source, signed), NOTHING)
            chain |= found
            if source != name:
                proofs |= self.proof(name, signed)
            if not is_alias:
                return Answer(NOERROR, True, chain, proofs, self.addresses(rtype, source, signed))
            name = next(iter(sets[CNAME])).rstrip(".")

    def cut_above(self, name, rtype):
        """The delegation that the name lies at or below, the highest one."""
        names = [n for n in reversed(above(name, self.apex)) if n != self.apex and NS in self.names.get(n, {})]
        return next((cut for cut in names if rtype != DS or cut != name), None)

    def source(self, name):
        """The name whose records answer: itself, or a wildcard; None: there is none. And its closest encloser."""
        encloser = next(n for n in above(name, self.apex) if n in self.nodes)
        if encloser == name:
            return name, name
        return (f"*.{encloser}" if f"*.{encloser}" in self.nodes else None), encloser

    def text(self, is_wanted=lambda owner: True):
        """A zone file, one record a line, the SOA first."""
        wanted = {owner: sets for owner, sets in self.names.items() if is_wanted(owner)}
        return "".join(line(owner, rtype, text) for owner, sets in wanted.items() for rtype in sets for text in sorted(sets[rtype]))


def above(name, apex):
    """The name and those above it, down to the apex."""
    found = [name]
    while name != apex:
        name = name.split(".", 1)[1]
        found.append(name)
    return found


def universe(root):
    """Names that may be there below `root`, and some that never are."""
    hosts = [f"h{i}.{root}" for i in range(10)]
    deep = [n for i in range(4) for n in (f"d.n{i}.{root}", f"n{i}.{root}")]
    cuts = [n for i in range(3) for n in (f"cut{i}.{root}", f"ns.cut{i}.{root}", f"x.cut{i}.{root}")]
    wild = [f"w.{root}", f"*.w.{root}", f"x.w.{root}", f"y.z.w.{root}"]
    return hosts + deep + cuts + wild + [f"c{i}.{root}" for i in range(4)] + [f"no.{root}", root]


def changed(rng, names, root):
    """One thing is different below `root`. Returns the names from now on, and which owners have changed."""
    kind, address = rng.randrange(8), lambda: f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"
    addresses = lambda most: {A: frozenset(address() for _ in range(rng.randint(1, most)))}
    one = lambda n, stem: f"{stem}{rng.randrange(n)}.{root}"
    host, wild = one(10, "h"), f"*.w.{root}"
    if kind <= 2:
        new = {host: {**names.get(host, {}), **addresses(3)}}
    elif kind == 3:
        new = {host: {**names.get(host, {}), MX: frozenset([f"{rng.randrange(9)} {one(10, 'h')}."])}}
    elif kind == 4:
        deep = "d." + one(4, "n")
        new = {deep: None if deep in names and rng.random() < 0.5 else {TXT: frozenset([f"t{rng.randrange(10**6)}"])}}
    elif kind == 5:
        new = {one(4, "c"): {CNAME: frozenset([f"{host}."])}}
    elif kind == 6:
        new = {wild: None if wild in names and rng.random() < 0.5 else addresses(1)}
    else:
        cut = one(3, "cut")
        is_gone = cut in names and rng.random() < 0.7
        new = {cut: None, f"ns.{cut}": None} if is_gone else {cut: {NS: frozenset([f"ns.{cut}."])}, f"ns.{cut}": addresses(2)}
    if kind == 0 and host in names:
        new = {host: None}
    after = {n: sets for n, sets in {**names, **new}.items() if sets is not None}
    return after, [n for n in new if names.get(n) != after.get(n)]


def fixed(zone):
    """Names that nobody changes, so that what is edited is a small part of a zone."""
    hosts = {f"s{i}.{zone}": {A: frozenset([f"192.0.2.{i}"])} for i in range(20)}
    return {f"ns.{zone}": {A: frozenset(["192.0.2.53"])}, **hosts}


def some_names(rng, root):
    names = {}
    for _ in range(30):
        names, _ = changed(rng, names, root)
    return names
