"""A service manager, a server for the resolver to ask, and a client that counts: what an upgrade costs.

    python3 upgrade.py DUNLIN FOLDER PORT NAMES [SIGNAL]

FOLDER has dunlin.toml, which listens on PORT and forwards to what this script answers on PORT + 1. The script starts
DUNLIN with a socket to notify, keeps the descriptors that it is given, asks NAMES names, and goes on asking for them,
one a millisecond, while it ends the process with SIGNAL (TERM) and starts another with those descriptors. It prints, as
JSON, how many questions were sent and answered, how long the longest gap between two answers was, how long the second
process took to be ready, and how many questions its cache could not answer.
"""

import array, json, os, select, signal, socket, struct, subprocess, sys, threading, time, zlib

PATIENCE_S = 60.0


def question(i, name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", i, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"


def address(packet):
    """What this script says is the address of the name that a packet asks for."""
    name = packet[12:packet.index(b"\0", 12)].lower()
    return struct.pack(">I", 0x0A000000 | zlib.crc32(name) & 0xFFFFFF)


def answer(packet):
    end = packet.index(b"\0", 12) + 5
    head = packet[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
    return head + packet[12:end] + b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 300, 4) + address(packet)


def be_asked(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", port))
    while True:
        packet, peer = server.recvfrom(4096)
        server.sendto(answer(packet), peer)


class Manager:
    def __init__(self, dunlin, folder):
        self.dunlin, self.folder, self.kept, self.pid = dunlin, folder, [], None
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def start(self):
        """Returns when the process is ready."""
        names = ":".join(name for name, _ in self.kept)
        log = os.open(os.path.join(self.folder, "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.pid = os.fork()
        if self.pid == 0:
            high = [os.dup(fd) for _, fd in self.kept]
            while any(fd < 3 + len(high) for fd in high):
                high = [os.dup(fd) if fd < 3 + len(high) else fd for fd in high]
            os.dup2(log, 1)
            os.dup2(log, 2)
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
            more = {"NOTIFY_SOCKET": self.path, "FDSTORE": "64", "LISTEN_PID": str(os.getpid())}
            more |= {"LISTEN_FDS": str(len(high)), "LISTEN_FDNAMES": names}
            os.chdir(self.folder)
            os.execve(self.dunlin, [self.dunlin, "serve", "-c", "dunlin.toml"], os.environ | more)
        os.close(log)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if self.hear() == "READY=1":
                return
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        sys.exit("it does not get ready: " + open(os.path.join(self.folder, "log")).read())

    def hear(self):
        if not select.select([self.socket], [], [], 0.1)[0]:
            return None
        text, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4))
        fields = dict(line.split("=", 1) for line in text.decode().splitlines())
        fds = [fd for _, _, data in ancillary for fd in array.array("i", data)]
        if "FDSTOREREMOVE" in fields:
            for _, fd in [k for k in self.kept if k[0] == fields["FDNAME"]]:
                os.close(fd)
            self.kept = [k for k in self.kept if k[0] != fields["FDNAME"]]
        elif "FDSTORE" in fields:
            self.kept += [(fields["FDNAME"], fd) for fd in fds]
        return text.decode()

    def end(self, how):
        os.kill(self.pid, how)
        os.waitpid(self.pid, 0)


class Client:
    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # While no server runs questions pile up, and their answers come all at once: more than the default holds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.sent = self.answered = self.wrong = 0
        self.waiting, self.last, self.gap = {}, time.monotonic(), 0.0

    def ask(self, name):
        packet = question(self.sent & 0xFFFF, name)
        self.waiting[packet[:2]] = packet
        self.sent += 1
        self.socket.send(packet)

    def hear(self, wait_s):
        if not select.select([self.socket], [], [], wait_s)[0]:
            return
        packet = self.socket.recv(4096)
        asked, now = self.waiting.pop(packet[:2], None), time.monotonic()
        self.answered += asked is not None
        self.wrong += asked is None or packet[-4:] != address(asked)
        self.gap, self.last = max(self.gap, now - self.last), now

    def hear_all(self, names):
        """Asks all names and hears all answers, whatever has to be asked again."""
        until = time.monotonic() + PATIENCE_S
        for i in range(0, len(names), 50):
            some = names[i:i + 50]
            for name in some:
                self.ask(name)
            while self.waiting and time.monotonic() < until:
                self.hear(0.1)

    def go_on(self, names, until):
        """One question a millisecond, until it is told that that is enough; then waits for what is missing."""
        self.last, due = time.monotonic(), time.monotonic()
        while not until.is_set():
            now = time.monotonic()
            if now >= due:
                self.ask(names[self.sent % len(names)])
                due += 0.001
            self.hear(max(0.0, min(due - now, 0.001)))
        end = time.monotonic() + 5.0
        while self.waiting and time.monotonic() < end:
            self.hear(0.1)


def misses(dunlin, folder):
    command = [dunlin, "ctl", "--socket", "control.sock", "--json", "stats"]
    stats = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    return int(stats.split('"cache_misses":')[1].split(",")[0].split("}")[0])


def hear_more(client):
    """Lets the client, who asks meanwhile, hear some hundred answers more."""
    enough, until = client.answered + 300, time.monotonic() + PATIENCE_S
    while client.answered < enough and time.monotonic() < until:
        select.select([], [], [], 0.01)


def main():
    dunlin, folder, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    how = getattr(signal, "SIG" + (sys.argv[5] if len(sys.argv) > 5 else "TERM"))
    threading.Thread(target=be_asked, args=[port + 1], daemon=True).start()
    names = [f"n{i}.example.com" for i in range(count)]
    manager, client, enough = Manager(dunlin, folder), Client(port), threading.Event()
    manager.start()
    client.hear_all(names)
    asking = threading.Thread(target=client.go_on, args=[names, enough])
    asking.start()
    hear_more(client)
    begun = time.monotonic()
    manager.end(how)
    ended = time.monotonic()
    manager.start()
    ready = time.monotonic()
    hear_more(client)
    enough.set()
    asking.join()
    print(json.dumps({
        "sent": client.sent,
        "answered": client.answered,
        "wrong": client.wrong,
        "longest_gap_s": round(client.gap, 4),
        "end_s": round(ended - begun, 4),
        "ready_s": round(ready - ended, 4),
        "misses_afterwards": misses(dunlin, folder),
        "kept": sorted({name for name, _ in manager.kept}),
    }))
    manager.end(signal.SIGKILL)


main()
