"""updaters.py PORT SECRET - updates z.example as two programs do that people use: certbot, by its own plug-in dns-rfc2136 with a file of
credentials, and external-dns's provider rfc2136, whose messages these are. Ends with the first answer that they would not
take. The key is named ddns, and one of the algorithm that certbot takes by itself, old; the zone's www has an address.
"""

import os
import sys
import tempfile
from types import SimpleNamespace

import dns.message
import dns.query
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import dns.update
from certbot.errors import PluginError
from certbot_dns_rfc2136._internal.dns_rfc2136 import Authenticator, _RFC2136Client

SERVER, PORT, TIMEOUT = "127.0.0.1", int(sys.argv[1]), 20
KEYRING, ALGORITHM = dns.tsigkeyring.from_text({"ddns": sys.argv[2]}), dns.tsig.HMAC_SHA256


def send(update, over=dns.query.tcp):
    response = over(update, SERVER, TIMEOUT, PORT)
    assert response.rcode() == dns.rcode.NOERROR, response
    assert response.had_tsig, "the answer is not signed"


def records(name, rtype):
    answer = dns.query.udp(dns.message.make_query(name, rtype), SERVER, TIMEOUT, PORT).answer
    return sorted(rdata.to_text().strip('"') for rrset in answer for rdata in rrset)


def plug_in(folder, signs, key):
    """certbot's plug-in, set up as by `certbot --dns-rfc2136 --dns-rfc2136-credentials FILE`."""
    credentials = os.path.join(folder, "rfc2136.ini")
    key = {"server": SERVER, "port": PORT, "secret": sys.argv[2], "sign_query": str(signs).lower(), **key}
    with open(credentials, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        for word, value in key.items():
            print(f"dns_rfc2136_{word} = {value}", file=file)
    authenticator = Authenticator(SimpleNamespace(dns_rfc2136_credentials=credentials), "dns-rfc2136")
    authenticator._setup_credentials()
    return authenticator


def certbot(signs, **key):
    name = "_acme-challenge.www.z.example"
    with tempfile.TemporaryDirectory() as folder:
        authenticator = plug_in(folder, signs, key)
        for content in ("one", "two"):
            authenticator._perform("www.z.example", name, content)
        assert records(name, "TXT") == ["one", "two"]
        for content in ("one", "two"):
            authenticator._cleanup("www.z.example", name, content)
        assert records(name, "TXT") == []
        client = authenticator._get_rfc2136_client()
        try:
            client.add_txt_record("_acme-challenge.www.elsewhere.test", "three", 120)
        except PluginError as e:
            assert "Unable to determine base domain" in str(e), e
        else:
            raise AssertionError("a name that is not ours was taken")
        wrong = _RFC2136Client(SERVER, PORT, "nobody", sys.argv[2], ALGORITHM, False)
        try:
            wrong.add_txt_record(name, "three", 120)
        except PluginError as e:
            assert "adding TXT record" in str(e), e
        else:
            raise AssertionError("an unknown key was taken")


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


certbot(False, name="ddns", algorithm="HMAC-SHA256")
certbot(True, name="ddns", algorithm="HMAC-SHA256")
# Which takes HMAC-MD5.
certbot(False, name="old")
certbot(True, name="old")
external_dns()
print("all taken")
