"""Hostile connections from a process of their own, at the lowest priority, as if they came from another machine: each says its words, waits for an
answer or the end, and comes again at once."""

import base64
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

ANSWER_S = 10


def client_hello(alpn="h2"):
    """The first words of a TLS client, which cost it nothing when it says them again and again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([alpn])
    sealed = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sealed).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sealed.read()


class Flood:
    """harm_of(fleet, seconds, Flood(port, 64, words)).   identity: files of certificate and key, and of the CA, for words within TLS. drains: reads until
    the other side closes, instead of one answer."""

    def __init__(self, port, count, words, identity=None, drains=False):
        self.order = {"port": port, "count": count, "words": base64.b64encode(words).decode(), "identity": identity, "drains": drains}
        self.connections = 0

    def __call__(self, is_over):
        with self:
            is_over.wait()

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(self.order) + "\n")
        self.process.stdin.flush()
        return self

    def __exit__(self, *_):
        """The process ends with its input, and says how many connections it has made."""
        self.connections = int(self.process.communicate()[0])


class Attacker(threading.Thread):
    def __init__(self, order, words, tls):
        super().__init__(daemon=True)
        self.order, self.words, self.tls, self.connections = order, words, tls, 0

    def run(self):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.order["port"]), ANSWER_S) as peer:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.speak(peer)
                self.connections += 1
            except OSError:
                time.sleep(0.001)

    def speak(self, peer):
        if self.tls:
            peer = self.tls.wrap_socket(peer, server_hostname="127.0.0.1")
        peer.sendall(self.words)
        while peer.recv(1 << 16) and self.order["drains"]:
            pass


def main():
    os.nice(19)
    order = json.loads(sys.stdin.readline())
    tls = None
    if order["identity"]:
        certificate, key, ca = order["identity"]
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.load_verify_locations(ca)
        tls.load_cert_chain(certificate, key)
        tls.set_alpn_protocols(["h2"])
    words = base64.b64decode(order["words"])
    attackers = [Attacker(order, words, tls) for _ in range(order["count"])]
    for attacker in attackers:
        attacker.start()
    sys.stdin.read()
    print(sum(attacker.connections for attacker in attackers), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
