"""Workers of whose results somebody makes others on the way to the gateway: what a worker with bad memory sends, or one that means ill."""

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


class Forger:
    """Stands between a worker and the gateway's fleet port. `forgery`: what it makes of results from now on; None: it passes them on. `left`: of
    how many; `forged`: of how many it has made something."""

    def __init__(self, fleet_port):
        self.fleet_port, self.port, self.forgery, self.forged, self.left = fleet_port, free_port(), None, 0, 0
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def forge_once(self, forgery):
        self.forgery, self.left = forgery, 1

    def forge_all(self, forgery):
        self.forgery, self.left = forgery, 1 << 62

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
                    if changed != body:
                        self.forged, self.left, body = self.forged + 1, self.left - 1, changed
                gateway.sendall(head + body)
        except OSError:
            pass
        self.end(gateway, worker)


class ForgingFleet(Fleet):
    """A fleet whose workers reach the gateway through a forger each."""

    def __enter__(self):
        self.forgers = {}
        return super().__enter__()

    def gateway_port_for(self, number):
        if number not in self.forgers:
            self.forgers[number] = Forger(self.fleet_port)
        return self.forgers[number].port

    def stop(self):
        for forger in self.forgers.values():
            forger.close()
        return super().stop()

    def last_worker(self):
        """The number of the one that draws tokens now."""
        return int(self.fleet_state()["chains"][0]["stages"][-1]["worker"].rpartition("-")[2]) - 1

    def worker_state(self, number):
        return next(worker for worker in self.fleet_state()["workers"] if worker["name"] == f"worker-{number + 1}")
