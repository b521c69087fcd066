"""early.py ADDRESS PORT SECRET - sends an update to a server that is about to start, a thousand times a second until somebody answers. Prints
a line when it begins, and then the code of the first answer. The key is named ddns.
"""

import select
import socket
import sys
import time

import dns.message
import dns.rcode
import dns.tsigkeyring
import dns.update

keyring = dns.tsigkeyring.from_text({"ddns": sys.argv[3]})
update = dns.update.Update("z.example", keyring=keyring)
update.add("early", 60, "A", "192.0.2.9")
query = update.to_wire()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind(("127.0.0.1", 0))
    print("begins", flush=True)
    until = time.monotonic() + 100
    while not select.select([s], [], [], 0.001)[0]:
        assert time.monotonic() < until, "nobody answers"
        s.sendto(query, (sys.argv[1], int(sys.argv[2])))
    answer = dns.message.from_wire(s.recv(65535), keyring=keyring, request_mac=update.mac)
print(dns.rcode.to_text(answer.rcode()))
