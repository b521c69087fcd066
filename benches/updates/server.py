"""server - the server under test: its process, its control socket, and what memory it has, and for what."""
import collections, json, os, re, signal, socket, subprocess

# A server that others leave no processor to takes its time. One that never does it is told of all the same.
PATIENCE_S = 240
# A heap of the allocator that is not the first one starts at such a border (glibc); a thread's stack has this size.
ARENA, STACK = 64 << 20, 2 << 20
PAGE = 4096
KINDS = ("heap", "arenas", "stacks", "program", "other")


class Wrong(Exception):
    """What the server did that it may not do."""


Mapping = collections.namedtuple("Mapping", "start end access inode path kib of_file")


class Server:
    def __init__(self, folder, program):
        self.folder, self.log = folder, open(os.path.join(folder, "log"), "a")
        command = [program, "serve", "-c", "dunlin.toml"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline().split()
        if len(line) < 2 or line[0] != "ready":
            raise Wrong(f"the server does not start: {line}, status {self.process.wait()}")
        self.port = int(line[1].rsplit(":", 1)[1])

    def ctl(self, words):
        """The answer to a request of an operator."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE_S)
            here = os.open(self.folder, os.O_PATH)
            try:
                s.connect(f"/proc/self/fd/{here}/control")
                s.sendall(f"{words}\n".encode())
                with s.makefile() as lines:
                    return json.loads(lines.readline())
            except (TimeoutError, ValueError, OSError) as e:
                raise Wrong(f"`{words}` is not answered: {e}") from None
            finally:
                os.close(here)

    def proc(self, name):
        with open(f"/proc/{self.process.pid}/{name}") as f:
            return f.read()

    def memory(self):
        """KiB that it has, as ps shows them (RSS), and how many of them are its own; the others are of files that it has mapped."""
        kib = dict(re.findall(r"^(\w+): +(\d+) kB$", self.proc("smaps_rollup"), re.MULTILINE))
        return int(kib["Rss"]), int(kib["Anonymous"])

    def descriptors(self):
        """How many are open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def mappings(self):
        """All that is mapped, each with its KiB of the process's own, and those of a file that are in memory."""
        for head, *rest in blocks(self.proc("smaps")):
            addresses, access, _, _, inode, *path = head.split(None, 5)
            start, end = (int(word, 16) for word in addresses.split("-"))
            sizes = {line.split()[0]: int(line.split()[1]) for line in rest if line.endswith(" kB")}
            own = sizes["Anonymous:"]
            yield Mapping(start, end, access, int(inode), "".join(path), own, sizes["Rss:"] - own)

    def memory_by_kind(self):
        """KiB of the process's own: of the first heap, of those of threads, of stacks, of the program's data, of anything else."""
        found, before = collections.Counter(), None
        for mapping in self.mappings():
            found[kind(mapping, before)] += mapping.kib
            before = mapping
        return {kind: found[kind] for kind in KINDS}

    def memory_by_file(self):
        """KiB of files that it has mapped and not written to, by the files' names."""
        found = collections.Counter()
        for mapping in self.mappings():
            if mapping.of_file:
                found[os.path.basename(mapping.path)] += mapping.of_file
        return found

    def images(self):
        """Inodes of the images that are mapped."""
        return {mapping.inode for mapping in self.mappings() if "zones.image" in mapping.path}

    def end(self, how):
        self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Wrong(f"the server does not end after signal {signal.Signals(how).name}") from None
        self.log.close()


def blocks(smaps):
    """The lines of each mapping, its head first."""
    block = []
    for line in smaps.splitlines():
        if block and not line.split(None, 1)[0].endswith(":"):
            yield block
            block = []
        block.append(line)
    yield block


def kind(mapping, before):
    if mapping.path in ("[heap]", "[stack]"):
        return "heap" if mapping.path == "[heap]" else "stacks"
    if mapping.inode:
        return "program"
    if mapping.start % ARENA == 0:
        return "arenas"
    # Before each stack there is a page that nobody may touch.
    is_guarded = before and before.end == mapping.start and before.access.startswith("---")
    return "stacks" if is_guarded and 0 <= mapping.end - mapping.start - STACK <= 4 * PAGE else "other"
