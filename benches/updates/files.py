"""files - what the soak's server reads: zone files, those that they include, the list of zones, dunlin.toml."""
import base64, os, threading
import message, model

# How many zones of each kind. The file of a `folder` is watched, and so are those of `nested` ones, which lie in them, and of
# `signed` ones. `list`: half of them are in a file that theirs includes; `shared`: all include one file. `written` ones stand in
# dunlin.toml. Updates change those of UPDATED; those of `back` are written back.
KINDS = {"folder": 84, "list": 76, "shared": 6, "written": 10, "updated": 14, "back": 14, "toggled": 6, "signed": 8, "nested": 6}
UPDATED = ("updated", "back", "toggled")
CONFIGURED = ("written", *UPDATED)
# A nested zone hides one of these of the zone that it lies in.
HIDDEN = ("w.e", "n0.e", "cut1.e", "c1.e", "no.e")
COMMON = "files/common.inc"
# Zones beside these, of the list, that nobody changes: so many files lie in a folder.
PER_FOLDER = 1000


class Zones:
    """All zones: the model, and the files that the server reads."""

    def __init__(self, rng, folder, secret, beside=0):
        # Held by whoever begins an update, or ends them.
        self.folder, self.all, self.lock = folder, {}, threading.Lock()
        self.beside = beside
        for kind, count in KINDS.items():
            for i in range(count):
                self.add(rng, kind, i)
        for sub in ("zones", "files"):
            os.mkdir(os.path.join(folder, sub))
        self.replace("./ddns.key", base64.b64encode(secret).decode() + "\n")
        self.write_common()
        for zone in self.all.values():
            self.write(zone)
        for i in range(beside):
            self.write_beside(i)
        for zone in self.of("toggled"):
            zone.e.begin(None)
            zone.e.settle(zone.e.hi)
        self.write_list()
        self.write_configuration()

    def add(self, rng, kind, i):
        name, above = f"{kind}{i}.test", None
        if kind == "nested":
            above = self.all[f"folder{i}.test" if i < len(HIDDEN) else "updated0.test"]
            name = f"{HIDDEN[i % len(HIDDEN)]}.{above.name}"
        updated = model.some_names(rng, f"u.{name}") if kind in UPDATED else {}
        names = {**model.fixed(name), **model.some_names(rng, f"e.{name}")}
        if kind == "shared":
            names |= {f"h0.common.{name}": {message.A: frozenset(["192.0.2.100"])}}
        self.all[name] = model.Zone(name, kind, i, names, updated, rng.randrange(1, 1000), above)

    def one_beside(self, i):
        """Not kept: it is always the same."""
        name = f"beside{i}.test"
        hosts = {f"{host}.{name}": {message.A: frozenset([f"192.0.2.{i % 256}"])} for host in ("ns", "s1")}
        return model.Zone(name, "beside", i, hosts, {}, 1)

    def write_beside(self, i):
        zone = self.one_beside(i)
        if i % PER_FOLDER == 0:
            os.makedirs(os.path.join(self.folder, "files", str(i // PER_FOLDER)))
        with open(os.path.join(self.folder, "files", beside_file(i)), "w") as f:
            f.write(zone.newest().text())

    def of(self, *kinds):
        return [zone for zone in self.all.values() if zone.kind in kinds]

    def is_included(self, zone):
        """All of the zone is in a file that its own includes."""
        return zone.kind == "list" and zone.number % 2 == 0

    def is_watched(self, zone):
        return zone.kind in ("folder", "signed", "nested") or zone.kind == "back" and zone.number % 2 == 0

    def path(self, zone):
        return f"zones/{zone.name}.zone" if self.is_watched(zone) else f"files/{zone.name}"

    def read(self, zone):
        with open(os.path.join(self.folder, self.path(zone))) as f:
            return f.readlines()

    def write(self, zone, content=None, error=""):
        content = content or zone.newest()
        path = self.path(zone)
        if self.is_included(zone):
            if not os.path.exists(os.path.join(self.folder, path)):
                self.replace(path, f"$INCLUDE {zone.name}.inc\n")
            path += ".inc"
        if zone.kind == "shared":
            is_own = lambda owner: not is_common(owner, zone)
            return self.replace(path, content.text(is_own) + error + f"$ORIGIN {zone.name}.\n$INCLUDE common.inc\n")
        self.replace(path, content.text() + error)

    def write_common(self):
        """What all zones of the kind `shared` include: the same names in each."""
        zone = self.of("shared")[0]
        text = zone.newest().text(lambda owner: is_common(owner, zone))
        self.replace(COMMON, text.replace(f".{zone.name}.", ""))

    def replace(self, path, text):
        """As careful editors do."""
        path = os.path.join(self.folder, path)
        new = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.new")
        with open(new, "w") as f:
            f.write(text)
        os.rename(new, path)

    def write_list(self):
        listed = [zone for zone in self.of("list", "shared") if zone.is_there()]
        beside = (f"beside{i}.test {beside_file(i)}\n" for i in range(self.beside))
        self.replace("files/list", "".join([*(f"{zone.name} {zone.name}\n" for zone in listed), *beside]))

    def write_configuration(self, error=""):
        lines = ['[server]\nlisten = ["127.0.0.1:0"]\ndata-dir = "data"\nuser = ""\n[control]\nsocket = "control"\nhttp = ""',
                 '[limits]\nenabled = false\n[zones]\ndirectory = "zones"\nlist = "files/list"',
                 '[[key]]\nname = "ddns"\nsecret-file = "ddns.key"']
        for zone in self.of(*CONFIGURED):
            if zone.is_there() or zone.is_closed:
                lines.append(f'[[zone]]\nname = "{zone.name}"\nfile = "{self.path(zone)}"')
                lines += ['allow-query = ["192.0.2.0/24"]'] * zone.is_closed
                lines += ['allow-update = ["key:ddns"]'] * (zone.kind in UPDATED)
                lines += ['write-back = "2s"'] * (zone.kind == "back")
        self.replace("./dunlin.toml", "\n".join([*lines, error]) + "\n")


def beside_file(i):
    """Within `files`."""
    return f"{i // PER_FOLDER}/{i}"


def is_common(owner, zone):
    return owner.endswith(f".common.{zone.name}")
