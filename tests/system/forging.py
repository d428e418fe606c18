"""Workers of whose results and reports somebody makes others on the way to the gateway: what a worker with bad memory sends, or one that means
ill."""

import json
import socket
import struct
import threading

from crc32c import crc32c
from fleet import Fleet
from programs import free_port

PREFACE_BYTES, FRAME_HEAD_BYTES, DATA = 24, 9, 0
HEAD_BYTES, RESULTS = 16, 3
# Of a results frame's payload: behind its count, the first result's fields.
POSITION, TOKEN, LOGPROB = 12, 16, 20


def change(payload, field, value):
    struct.pack_into("<I", payload, field, value)


# What becomes of the payload of a results frame. Its checksums are made right again, but for "garbled".
FORGERIES = {
    "token": lambda payload: change(payload, TOKEN, 0xFFFFFFFE),
    "position": lambda payload: change(payload, POSITION, struct.unpack_from("<I", payload, POSITION)[0] + 1),
    "nan": lambda payload: change(payload, LOGPROB, 0x7FC00000),
    "garbled": lambda payload: change(payload, TOKEN, 0xFFFFFFFE),
    # one that there is, so that nobody can see it
    "another": lambda payload: change(payload, TOKEN, struct.unpack_from("<I", payload, TOKEN)[0] ^ 1),
}


def forge(body, forgery):
    """A DATA frame's payload with another results frame in it, where it has one with a result."""
    at = body.find(struct.pack("<I", RESULTS))
    while at >= 0 and len(body) - at >= HEAD_BYTES:
        size, _, head_sum = struct.unpack_from("<III", body, at + 4)
        if crc32c(body[at : at + 12]) == head_sum and at + HEAD_BYTES + size <= len(body):
            payload = bytearray(body[at + HEAD_BYTES : at + HEAD_BYTES + size])
            if struct.unpack_from("<I", payload)[0] == 0:
                return body
            FORGERIES[forgery](payload)
            head = struct.pack("<II", RESULTS, size)
            head += body[at + 8 : at + 12] if forgery == "garbled" else struct.pack("<I", crc32c(payload))
            return body[:at] + head + struct.pack("<I", crc32c(head)) + payload + body[at + HEAD_BYTES + size :]
        at = body.find(struct.pack("<I", RESULTS), at + 1)
    return body


def times_of(value, factor):
    """A time, or what holds times."""
    if isinstance(value, dict):
        return {key: part if key in ("rows", "age_us") else times_of(part, factor) for key, part in value.items()}
    return [times_of(part, factor) for part in value] if isinstance(value, list) else float(f"{value * factor:.5g}")


def boast(body, worker, factor):
    """A worker's report that says it is so many times as fast; what is no whole report stays as it is."""
    text, is_sealed, _ = body.rpartition(b"\ncrc32c=")
    if not is_sealed or not text.startswith(b"{"):
        return body
    report = json.loads(text)
    for part in ("speed", "compute"):
        if report.get(part):
            report[part] = times_of(report[part], 1 / factor)
    text = json.dumps(report, separators=(",", ":")).encode().ljust(len(text))  # the request has said its length
    return text + b"\ncrc32c=%08x\n" % crc32c(worker.encode() + text)


class Forger:
    """Stands between a worker and the gateway's fleet port. `forgery`: what it makes of results from now on; None: it passes them on. `left`: of
    how many; `forged`: of how many it has made something; `every`: it makes something of each so many-th alone. `boasts`: how many times as fast it makes the
    worker look; 0: it does not."""

    def __init__(self, fleet_port, worker, boasts=0):
        self.fleet_port, self.worker, self.boasts, self.port = fleet_port, worker, boasts, free_port()
        self.forgery, self.forged, self.left = None, 0, 0
        self.every, self.seen = 1, 0
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def forge_once(self, forgery):
        self.forgery, self.left = forgery, 1

    def forge_all(self, forgery):
        self.forgery, self.left = forgery, 1 << 62

    def forge_every(self, forgery, every):
        self.forgery, self.left, self.every, self.seen = forgery, 1 << 62, every, 0

    def accept(self):
        while True:
            try:
                worker, _ = self.listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self.fleet_port))
            except OSError:
                return
            for end in (worker, gateway):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.pass_back, args=(gateway, worker), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(worker, gateway), daemon=True).start()

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def pass_back(self, gateway, worker):
        try:
            while data := gateway.recv(1 << 16):
                worker.sendall(data)
        except OSError:
            pass
        self.end(gateway, worker)

    def pass_on(self, worker, gateway):
        stream = worker.makefile("rb")
        try:
            gateway.sendall(stream.read(PREFACE_BYTES))
            while head := stream.read(FRAME_HEAD_BYTES):
                body = stream.read(int.from_bytes(head[:3], "big"))
                if head[3] == DATA and self.left > 0:
                    changed = forge(body, self.forgery)
                    self.seen += changed != body
                    if changed != body and self.seen % self.every == 0:
                        self.forged, self.left, body = self.forged + 1, self.left - 1, changed
                if head[3] == DATA and self.boasts:
                    body = boast(body, self.worker, self.boasts)
                gateway.sendall(len(body).to_bytes(3, "big") + head[3:] + body)
        except OSError:
            pass
        self.end(gateway, worker)


class ForgingFleet(Fleet):
    """A fleet whose workers reach the gateway through a forger each. boasts: number -> of that worker's forger."""

    def __init__(self, workers, boasts=None, **more):
        super().__init__(workers, **more)
        self.forgers, self.boasts = {}, boasts or {}

    def gateway_port_for(self, number):
        if number not in self.forgers:
            self.forgers[number] = Forger(self.fleet_port, f"worker-{number + 1}", self.boasts.get(number, 0))
        return self.forgers[number].port

    def stop(self):
        for forger in self.forgers.values():
            forger.close()
        return super().stop()

    def last_worker(self):
        """The number of the one that draws tokens now."""
        return int(self.fleet_state()["chains"][0]["stages"][-1]["worker"].rpartition("-")[2]) - 1

    def layers_of(self, number):
        stages = self.fleet_state()["chains"][0]["stages"]
        return sum(stage["last_layer"] - stage["first_layer"] for stage in stages if stage["worker"] == f"worker-{number + 1}")

    def worker_state(self, number):
        return next(worker for worker in self.fleet_state()["workers"] if worker["name"] == f"worker-{number + 1}")
