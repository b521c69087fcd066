"""updaters.py PORT SECRET - updates z.example as two programs do that people use: certbot's plug-in dns-rfc2136, whose calls of
dnspython these are, and external-dns's provider rfc2136, whose messages these are. Ends with the first answer that they
would not take. The key is named ddns; the zone's www has an address.
"""

import sys

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
import dns.update

SERVER, PORT, TIMEOUT = "127.0.0.1", int(sys.argv[1]), 20
KEYRING, ALGORITHM = dns.tsigkeyring.from_text({"ddns": sys.argv[2]}), dns.tsig.HMAC_SHA256


def is_authoritative(name, signs):
    domain = dns.name.from_text(name)
    request = dns.message.make_query(domain, dns.rdatatype.SOA, dns.rdataclass.IN)
    request.flags ^= dns.flags.RD
    if signs:
        request.use_tsig(KEYRING, algorithm=ALGORITHM)
    response = dns.query.tcp(request, SERVER, TIMEOUT, PORT)
    found = response.rcode() == dns.rcode.NOERROR and response.get_rrset(response.answer, domain, dns.rdataclass.IN, dns.rdatatype.SOA)
    return bool(found and response.flags & dns.flags.AA)


def find_domain(name, signs):
    labels = name.split(".")
    guesses = [".".join(labels[i:]) for i in range(len(labels))]
    return next(guess for guess in guesses if is_authoritative(guess, signs))


def send(update, over=dns.query.tcp):
    response = over(update, SERVER, TIMEOUT, PORT)
    assert response.rcode() == dns.rcode.NOERROR, response
    assert response.had_tsig, "the answer is not signed"


def records(name, rtype):
    answer = dns.query.udp(dns.message.make_query(name, rtype), SERVER, TIMEOUT, PORT).answer
    return sorted(rdata.to_text().strip('"') for rrset in answer for rdata in rrset)


def certbot(signs):
    record = "_acme-challenge.www.z.example"
    domain = find_domain(record, signs)
    assert domain == "z.example", domain
    relative = dns.name.from_text(record).relativize(dns.name.from_text(domain))
    for content in ("one", "two"):
        update = dns.update.Update(domain, keyring=KEYRING, keyalgorithm=ALGORITHM)
        update.add(relative, 120, dns.rdatatype.TXT, content)
        send(update)
    assert records(record, "TXT") == ["one", "two"]
    for content in ("one", "two"):
        update = dns.update.Update(domain, keyring=KEYRING, keyalgorithm=ALGORITHM)
        update.delete(relative, dns.rdatatype.TXT, content)
        send(update)
    assert records(record, "TXT") == []


def external_dns():
    """A message for all changes of a zone: what goes as class NONE with its rdata or ANY with its type, then what comes."""
    update = dns.update.Update("z.example.", keyring=KEYRING, keyalgorithm=ALGORITHM)
    update.add("app", 300, "A", "192.0.2.10")
    update.add("a-app", 300, "TXT", '"heritage=external-dns,external-dns/owner=me"')
    send(update)
    update = dns.update.Update("z.example.", keyring=KEYRING, keyalgorithm=ALGORITHM)
    update.delete("app", "A", "192.0.2.10")
    update.delete("a-app", "TXT")
    update.add("app", 300, "A", "192.0.2.11")
    update.add("app", 300, "A", "192.0.2.12")
    update.add("a-app", 300, "TXT", '"heritage=external-dns,external-dns/owner=you"')
    send(update, dns.query.udp)
    assert records("app.z.example", "A") == ["192.0.2.11", "192.0.2.12"]
    assert records("a-app.z.example", "TXT") == ["heritage=external-dns,external-dns/owner=you"]
    update = dns.update.Update("z.example.", keyring=KEYRING, keyalgorithm=ALGORITHM)
    update.delete("app", "A")
    update.delete("a-app")
    send(update)
    assert records("app.z.example", "A") == [] == records("a-app.z.example", "TXT")


certbot(False)
certbot(True)
external_dns()
print("all taken")
