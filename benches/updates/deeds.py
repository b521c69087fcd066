"""deeds - what the soak's operator does, one thing after another, on a thread of his own: he changes files, has the server read
them, and looks at what it says. Beside this queries and updates go on.
"""
import collections, contextlib, os, random, socket, threading, time, traceback
import message, model
from files import UPDATED, is_common
from server import PATIENCE_S, Wrong

FILES = ("folder", "list", "shared", "written", "signed", "nested")
MAY_GO = ("folder", "list", "signed", "nested")
PAGE = 4096
CONFLICT = "the same has changed since"


class Operator(threading.Thread):
    def __init__(self, zones, server, rng, sign):
        super().__init__(daemon=True)
        self.zones, self.server, self.rng, self.sign = zones, server, rng, sign
        self.may_change, self.is_idle, self.is_over, self.wrong = threading.Event(), threading.Event(), False, None
        self.done, self.recent = collections.Counter(), collections.deque(maxlen=12)
        # Zones whose change the server has to notice by itself, and until when.
        self.awaited = {}
        # Until when a spoilt image was served: then answers may be missing. And until when one that somebody has written into:
        # whatever that says means nothing.
        self.mended = self.cleaned = 0.0
        # How often, and to zones of which kinds.
        self.deeds = [(50, self.edit, FILES), (8, self.remove, MAY_GO), (8, self.add, MAY_GO), (20, self.edit_back, ("back",)),
                      (6, self.toggle, ("toggled",)), (6, self.go_back, ("updated",)), (5, self.break_file, FILES),
                      (4, self.shrink, FILES), (3, self.edit_common, ("shared",)), (4, self.open_or_close, ("written",)),
                      (2, self.break_configuration, ("written",)), (3, self.freeze, UPDATED), (3, self.contradict, ("back",)),
                      (2, self.shrink_back, ("back",)), (4, self.go_back_in_file, ("list", "written")), (1, self.spoil, ("list",))]

    def run(self):
        try:
            while not self.is_over:
                self.is_idle.set()
                if self.may_change.wait(0.1):
                    self.is_idle.clear()
                    # Whoever stops him, and found him idle just before, would take him for idle still.
                    if self.may_change.is_set():
                        self.act()
                    time.sleep(self.rng.random() * 0.2)  # the pace of an operator: the load, nothing is awaited
            self.mend_files()
        except Wrong as e:
            self.wrong = str(e)
        except Exception:
            self.wrong = "the soak itself is at fault: " + traceback.format_exc()
        self.is_idle.set()

    def act(self):
        for zone in [zone for zone in self.awaited if zone.e.is_settled()]:
            del self.awaited[zone]
        _, deed, kinds = self.rng.choices(self.deeds, [weight for weight, _, _ in self.deeds])[0]
        free = [zone for zone in self.zones.of(*kinds) if zone.e.is_settled() and zone not in self.awaited]
        if deed == self.add:
            free = [zone for zone in free if not zone.is_there()]
        if free:
            zone = self.rng.choice(free)
            self.recent.append(zone)
            self.note(zone, deed.__name__)
            deed(zone)

    def note(self, zone, deed):
        zone.deeds.append(f"{time.strftime('%H:%M:%S')} {deed}, version {zone.e.hi}")

    def ask(self, words, zone, errors=()):
        """`errors`: how complaints begin that must be there; no others may."""
        answer = self.server.ctl(words)
        said = answer.get("errors", [])
        begins = lambda e: any(e.startswith(begin) for begin in errors)
        if len(said) != len(errors) or not all(begins(e) for e in said):
            raise Wrong(f"`{words}` is answered with {answer}; the complaints should be {errors}")
        self.done[words.split(zone.name)[0].strip() + " NAME" * (zone.name in words)] += 1
        self.note(zone, words)

    def wait(self, what, is_so):
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > until:
                raise Wrong(f"after {PATIENCE_S} s still not so: {what}; {self.server.ctl('status')}")
            time.sleep(0.05)  # between two looks, up to the moment above

    @contextlib.contextmanager
    def paused(self, *zones):
        """No update of these zones is under way, and none is begun."""
        with self.zones.lock:
            for zone in zones:
                zone.is_paused = True
        self.wait("all updates are answered", lambda: not any(zone.is_open for zone in zones))
        try:
            yield
        finally:
            for zone in zones:
                zone.is_paused = not zone.is_there()

    def reload(self, zone):
        """By name, or whole."""
        if self.rng.random() < 0.6:
            is_gone = not zone.is_there() and not zone.is_closed
            self.ask(f"reload {zone.name}", zone, [f"no zone {zone.name} is configured"] if is_gone else [f"zone {zone.name}"] * zone.is_wrong)
        else:
            self.reload_all(zone)

    def reload_all(self, zone):
        self.ask("reload", zone, [f"zone {z.name}" for z in self.zones.all.values() if z.is_wrong])

    def served(self, zone, number, is_seen=True):
        """Has the new version served, or waits for the server to notice it, if that is seen."""
        if self.zones.is_watched(zone) and self.rng.random() < 0.4 and is_seen:
            self.awaited[zone] = time.monotonic() + PATIENCE_S
            return
        self.reload(zone)
        zone.e.settle(number)

    def edit(self, zone):
        """A new version of a file; of a signed zone, signed anew."""
        before = zone.e.newest()
        if before is None:
            return
        self.done["edits"] += 1
        names = {**model.fixed(zone.name), **before.names}
        for _ in range(self.rng.randint(1, 4)):
            names, _ = model.changed(self.rng, names, f"e.{zone.name}")
        # Now and then without a new serial.
        is_renumbered = names == before.names or self.rng.random() < 0.9
        number = zone.e.begin(model.Version(names, before.serial + is_renumbered))
        zone.is_wrong = False
        self.zones.write(zone)
        # What only names have that are another zone's below it no answer shows but the serial.
        self.served(zone, number, is_renumbered or zone.below is None)

    def mend_files(self):
        for zone in [zone for zone in self.zones.all.values() if zone.is_wrong]:
            self.edit(zone)

    def edit_common(self, zone):
        """An edit of a file that several zones include: all of them change at once, none has a new serial."""
        all_of_them = self.zones.of("shared")
        if any(other.is_wrong or not other.e.is_settled() for other in all_of_them):
            return
        self.done["edits of a file that several zones include"] += 1
        common = lambda names, owner: {n: sets for n, sets in names.items() if is_common(n, owner)}
        names, _ = model.changed(self.rng, zone.e.newest().names, f"common.{zone.name}")
        for other in all_of_them:
            before = other.e.newest()
            own = {n: sets for n, sets in before.names.items() if not is_common(n, other)}
            renamed = lambda text: text.replace(f".{zone.name}", f".{other.name}")
            theirs = {renamed(n): {t: frozenset(map(renamed, texts)) for t, texts in sets.items()} for n, sets in common(names, zone).items()}
            other.e.begin(model.Version({**own, **theirs}, before.serial))
        self.zones.write_common()
        self.reload_all(zone)
        for other in all_of_them:
            other.e.settle(other.e.hi)

    def remove(self, zone):
        if zone.is_wrong or not zone.is_there():
            return
        self.done["zones removed"] += 1
        number = zone.e.begin(None)
        if zone.kind != "list":
            os.remove(os.path.join(self.zones.folder, self.zones.path(zone)))
        self.zones.write_list()
        self.served(zone, number)

    def add(self, zone):
        """It comes back, and is another one."""
        self.done["zones added"] += 1
        before = zone.e.last()
        names, _ = model.changed(self.rng, before.names, f"e.{zone.name}")
        number = zone.e.begin(model.Version(names, before.serial + 1))
        self.zones.write(zone)
        self.zones.write_list()
        self.served(zone, number)

    def edit_back(self, zone):
        """Edits the file of a zone that updates change meanwhile."""
        lines = self.zones.read(zone)
        before = zone.e.newest()
        names, owners = model.changed(self.rng, before.names, f"e.{zone.name}")
        if not owners or not self.may_be_edited(zone, lines):
            return
        # What was lost when a guard was overruled comes back.
        names = {**model.fixed(zone.name), **names}
        for owner in sorted({*owners, *(names.keys() - before.names.keys())}):
            lines = with_sets(lines, owner, names.get(owner, {}))
        self.done["edits of files that are written back"] += 1
        zone.edited = lines
        self.awaited[zone] = time.monotonic() + PATIENCE_S
        zone.e.begin(model.Version(names, before.serial + 1))
        self.zones.replace(self.zones.path(zone), "".join(lines))
        if not self.zones.is_watched(zone) or self.rng.random() < 0.5:
            self.reload(zone)

    def may_be_edited(self, zone, lines):
        """Who edits his own edit before it was written back edits an old version, and what he says twice may be a conflict. And a
        file that was never written back does not say which version it is of: it may be written just when it is edited."""
        return zone.edited != lines and lines[0].startswith(";")

    def held(self, zone):
        """Why an edit of the zone's file waits; nothing if none does."""
        held = self.server.ctl("status")["status"]["held"]
        return next((one["why"] for one in held if one["zone"].rstrip(".") == zone.name), "")

    def change(self, zone, owner, sets):
        """An update of the operator's own, when nobody else updates the zone."""
        before = zone.u.newest()
        number = zone.u.begin(model.Version({**before.names, owner: sets}, before.serial + 1))
        octets = self.sign(1, message.update(1, zone.name, [owner], {owner: sets}))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(PATIENCE_S)
            s.connect(("127.0.0.1", self.server.port))
            s.send(octets)
            rcode = s.recv(4096)[3] & 15
        if rcode != message.NOERROR:
            raise Wrong(f"an update of {owner} has rcode {rcode}")
        zone.u.settle(number)

    def contradict(self, zone):
        """An edit changes what an update has changed since: it is held until one of them gives way."""
        with self.paused(zone):
            lines = self.zones.read(zone)
            hosts = [n for n, sets in zone.u.newest().names.items() if message.A in sets and any(l.startswith(f"{n}. ") for l in lines)]
            if not hosts or not self.may_be_edited(zone, lines) or self.held(zone):
                return
            self.done["contradictions"] += 1
            host, path = self.rng.choice(hosts), self.zones.path(zone)
            address = lambda last: {**zone.u.newest().names[host], message.A: frozenset([f"198.51.100.{last}"])}
            # What the file or the zone has already would be no change.
            known = {word for line in lines if line.startswith(f"{host}. ") for word in line.split()} | zone.u.newest().names[host][message.A]
            his, theirs = self.rng.sample([last for last in range(256) if f"198.51.100.{last}" not in known], 2)
            edited = address(his)
            self.change(zone, host, address(theirs))
            self.zones.replace(path, "".join(with_sets(lines, host, edited)))
            self.ask(f"reload {zone.name}", zone, [f"zone {zone.name}"])
            if CONFLICT not in self.held(zone):
                raise Wrong(f"an edit of {host} is held for another reason: {self.held(zone)}")
            zone.edited, way, before = with_sets(lines, host, edited), self.rng.randrange(3), zone.e.newest()
            if way == 0:
                os.remove(os.path.join(self.zones.folder, path))
            else:
                # An edit that has nothing left to change is a version all the same.
                zone.e.begin(model.Version(before.names, before.serial + 1))
                self.awaited[zone] = time.monotonic() + PATIENCE_S
            if way == 1:
                self.change(zone, host, edited)
            elif way == 2:
                zone.edited = with_sets(lines, host, zone.u.newest().names[host])
                self.zones.replace(path, "".join(zone.edited))
            self.ask(f"reload {zone.name}", zone)
            if self.held(zone):
                raise Wrong(f"the edit of {zone.name} is held still: {self.held(zone)}")
            self.wait(f"{path} is written", lambda: os.path.exists(os.path.join(self.zones.folder, path)))
            # While it waits for nobody to write to the file it does not say that it is held.
            self.wait(f"the edit of {zone.name} is taken in", zone.e.is_settled)

    def shrink_back(self, zone):
        """An edit that loses most records is held by a guard, and forced."""
        before = zone.e.newest()
        if len(before.names) < len(model.fixed(zone.name)) or self.held(zone):
            return
        with self.paused(zone):
            # An older version would contradict the updates since.
            self.wait(f"{zone.name} is written back", lambda: zone.newest().text(lambda owner: owner == zone.name) in "".join(self.zones.read(zone)))
            lines = self.zones.read(zone)
            is_kept = lambda line: line.startswith((";", f"{zone.name}. ", f"ns.{zone.name}. "))
            kept = [line for line in lines if is_kept(line)]
            self.done["edits held by a guard"] += 1
            self.zones.replace(self.zones.path(zone), "".join(kept))
            self.ask(f"reload {zone.name}", zone, [f"zone {zone.name}"])
            if "would be lost" not in self.held(zone):
                raise Wrong(f"an edit of {zone.name} is held for another reason: {self.held(zone)}")
            # All that updates have made, too.
            edits = zone.e.begin(model.Version({f"ns.{zone.name}": model.fixed(zone.name)[f"ns.{zone.name}"]}, before.serial + 1))
            updates = zone.u.begin(model.Version({}, zone.u.newest().serial))
            self.ask(f"zone publish --force {zone.name}", zone)
            self.wait(f"the edit of {zone.name} is forced", lambda: not self.held(zone))
            zone.e.settle(edits)
            zone.u.settle(updates)
            zone.edited = kept

    def toggle(self, zone):
        """A zone of updates leaves the configuration, or comes back as it was."""
        self.done["zones of updates that came or went"] += 1
        with self.paused(zone):
            number = zone.e.begin(None if zone.is_there() else zone.e.last())
            self.zones.write_configuration()
            self.reload(zone)
            zone.e.settle(number)

    def open_or_close(self, zone):
        """Who may ask about a zone is changed in the configuration."""
        if zone.is_wrong:
            return
        self.done["changes of allow-query"] += 1
        zone.is_closed = zone.is_there()
        number = zone.e.begin(None if zone.is_closed else zone.e.last())
        self.zones.write_configuration()
        self.reload(zone)
        zone.e.settle(number)

    def break_configuration(self, zone):
        """An error in dunlin.toml changes nothing, though a zone in it is another too."""
        self.done["errors in dunlin.toml"] += 1
        # What has to be served from a new image is not served until the configuration can be read.
        with self.paused(*self.zones.of(*UPDATED)):
            zone.is_closed = not zone.is_closed
            self.zones.write_configuration(error="[[zone]]\nname = 7")
            zone.is_closed = not zone.is_closed
            answer = self.server.ctl("reload")
            if not answer.get("errors") or not all("dunlin.toml" in said for said in answer["errors"]):
                raise Wrong(f"an error in dunlin.toml is answered with {answer}")
            self.zones.write_configuration()
            self.reload_all(zone)

    def freeze(self, zone):
        """For a while updates are refused."""
        if not zone.is_there() or zone.is_new:
            return
        for words, is_frozen in (("freeze", True), ("thaw", False)):
            with self.paused(zone):
                self.ask(f"zone {words} {zone.name}", zone)
                zone.is_frozen = is_frozen
            if is_frozen:
                time.sleep(self.rng.random())  # how long it stays frozen is the load, too

    def go_back(self, zone):
        """A zone of updates is to be as it was some versions ago, under a new serial."""
        with self.paused(zone):
            now, old = zone.u.newest(), zone.u.versions[max(0, zone.u.hi - self.rng.randint(1, 5))]
            if old.names != now.names:
                number = zone.u.begin(model.Version(old.names, now.serial + 1))
                self.ask(f"zone rollback {zone.name} {old.serial + zone.e.newest().serial}", zone)
                zone.u.settle(number)

    def go_back_in_file(self, zone):
        """The same of a zone that its file owns: that is written anew."""
        target = zone.e.hi - self.rng.randint(1, 3)
        versions = [zone.e.versions.get(n) for n in range(target, zone.e.hi + 1)]
        if self.zones.is_included(zone) or zone.is_wrong or target < 1 or None in versions:
            return
        serials = [version.serial for version in versions]
        if len(set(serials)) < len(serials) or versions[0].names == versions[-1].names:
            return
        number = zone.e.begin(model.Version(versions[0].names, serials[-1] + 1))
        self.ask(f"zone rollback {zone.name} {serials[0] + zone.u.newest().serial}", zone)
        zone.e.settle(number)

    def break_file(self, zone):
        """The file has an error: the zone goes on as it was."""
        if not zone.is_there() or zone.is_wrong:
            return
        self.done["errors in files"] += 1
        names, _ = model.changed(self.rng, zone.e.newest().names, f"e.{zone.name}")
        wrong = zone.joined(zone.u.newest(), model.Version(names, zone.e.newest().serial + 1))
        zone.is_wrong = True
        self.zones.write(zone, wrong, error=f"here.{zone.name}. 60 IN A 192.0.2.\n")
        self.reload(zone)

    def shrink(self, zone):
        """A version that loses most records is held by a guard, and may be forced."""
        # One that was forced already has nothing left to lose.
        if not zone.is_there() or zone.is_wrong or len(zone.e.newest().names) < len(model.fixed(zone.name)):
            return
        kept = lambda owner: owner == f"ns.{zone.name}" or is_common(owner, zone)
        version = model.Version({n: sets for n, sets in zone.e.newest().names.items() if kept(n)}, zone.e.newest().serial + 1)
        # What other zones include, too, may be most of it.
        records = lambda e: zone.joined(zone.u.newest(), e).text().count("\n")
        if 2 * records(version) >= records(zone.e.newest()):
            return
        self.done["versions held by a guard"] += 1
        zone.is_wrong = True
        self.zones.write(zone, zone.joined(zone.u.newest(), version))
        self.reload(zone)
        if self.rng.random() < 0.5:
            number, zone.is_wrong = zone.e.begin(version), False
            self.ask(f"zone publish --force {zone.name}", zone)
            zone.e.settle(number)

    def served_image(self):
        """The file of the image that is served: one that was made just now has its name before anybody maps it."""
        found = []
        def is_served():
            image = open(os.path.join(self.zones.folder, "data/images/zones.image"), "r+b")
            found.append(image)
            return os.fstat(image.fileno()).st_ino in self.server.images()
        self.wait("the image that has the name is served", is_served)
        for image in found[:-1]:
            image.close()
        return found[-1]

    def spoil(self, zone):
        """Somebody cuts off the image under the server, or writes into it: it is built anew."""
        if self.awaited:
            return
        self.mend_files()
        self.wait("all files are served", lambda: all(z.e.is_settled() for z in self.zones.all.values()))
        self.done["images spoilt"] += 1
        with self.paused(*self.zones.of(*UPDATED)), self.served_image() as image:
            # It is open, so nobody else gets its number.
            about = os.fstat(image.fileno())
            self.mended = float("inf")
            is_cut = self.rng.random() < 0.5
            # Of one that is cut off wholly no page stays mapped once all have been looked at, though it is still served.
            at = self.rng.randrange(1 if is_cut else 0, about.st_size // PAGE) * PAGE
            if is_cut:
                image.truncate(at)
            else:
                self.cleaned = self.mended
                image.seek(at)
                image.write(self.rng.randbytes(PAGE))
                image.flush()
            self.wait("another image is served than the one that was spoilt", lambda: about.st_ino not in self.server.images())
            self.mended = time.monotonic()
            if not is_cut:
                self.cleaned = self.mended


def with_sets(lines, owner, sets):
    """A zone file in which a name has these RRsets."""
    lines = [line for line in lines if line.split(None, 1)[0] != f"{owner}."]
    return lines + [message.line(owner, rtype, text) for rtype in sets for text in sorted(sets[rtype])]
