"""A gateway and its workers on loopback, over TLS alone."""

import ssl
import tempfile

from certificates import issue, make_ca
from fleet import Fleet
from programs import Program, free_port

HOME = "127.0.0.1"


class SecureFleet(Fleet):
    """Every worker at a site of its own, reached by TLS alone."""

    def __init__(self, workers, worker_flags=()):
        self.certificates = tempfile.TemporaryDirectory(prefix="longhaul-certificates-")
        make_ca(self.certificates.name)
        flags = ["--rebalance-delay-ms", "500", *issue(self.certificates.name, "gateway")]
        super().__init__(workers, gateway_flags=flags, worker_flags=worker_flags, fetches=True)

    def start_worker(self, number):
        worker = self.start_named(f"worker-{number + 1}")
        self.workers[number:number + 1] = [worker]
        return worker

    def start_named(self, name, advertised=None):
        address = f"{HOME}:{free_port()}"
        return Program(
            name,
            [self.worker_program, "--name", name, "--site", f"site-of-{name}", "--gateway", f"https://{HOME}:{self.fleet_port}", "--listen-tls",
             address, "--advertise-tls", advertised or address, "--threads", "1", "--kv-bytes", "64M", "--cache-dir", f"{self.folder}/cache-{name}",
             *self.worker_flags, *issue(self.certificates.name, name, f"site-of-{name}")],
            self.folder,
        )

    def client_context(self, name):
        """For connections with the certificate of this name, which the fleet has made."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.load_verify_locations(f"{self.certificates.name}/ca.crt")
        context.load_cert_chain(f"{self.certificates.name}/{name}.crt", f"{self.certificates.name}/{name}.key")
        context.set_alpn_protocols(["h2"])
        return context

    def identity_files(self, name):
        """Certificate, key and CA."""
        return [f"{self.certificates.name}/{file}" for file in (f"{name}.crt", f"{name}.key", "ca.crt")]

    def worker_state(self, name):
        return next((worker for worker in self.fleet_state()["workers"] if worker["name"] == name), None)

    def chain(self):
        chain = self.fleet_state()["chains"][0]
        return chain["epoch"], [stage["worker"] for stage in chain["stages"]]
