"""A fleet whose gateway writes its log into a pipe that is full and that nobody reads until somebody wants to."""

import os
import threading

from fleet import Fleet
from programs import Program

FILL = b"x" * 79 + b"\n"


class UnreadLogFleet(Fleet):
    def __enter__(self):
        self.reader, self.writer = os.pipe()
        return super().__enter__()

    def __exit__(self, *what):
        """From here on somebody reads, so that a gateway that waits for that ends too."""
        threading.Thread(target=self.discard, daemon=True).start()
        try:
            return super().__exit__(*what)
        finally:
            os.close(self.writer)

    def discard(self):
        while os.read(self.reader, 1 << 16):
            pass
        os.close(self.reader)

    def start_gateway(self):
        fleet_flags = ["--listen", f"127.0.0.1:{self.port}", "--fleet-listen", f"127.0.0.1:{self.fleet_port}", "--workers", str(self.worker_count)]
        self.gateway = Program("gateway", [self.gateway_program, "--model", self.model, *fleet_flags, *self.gateway_flags], self.folder, stderr=self.writer)

    def block(self):
        """What the programs write from now on finds no room."""
        os.set_blocking(self.writer, False)
        try:
            while True:
                os.write(self.writer, FILL)
        except BlockingIOError:
            os.set_blocking(self.writer, True)

    def read_until(self, mark):
        """All that is in the log until it has this mark, without what filled it."""
        text = b""
        while mark not in text:
            text += os.read(self.reader, 1 << 16)
        return text.replace(FILL, b"").decode()
