"""A CA and certificates for a fleet, as docs/OPERATING.md has them made."""

import pathlib
import subprocess

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def _openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_ca(folder):
    _openssl(folder, "req", "-x509", *EC, "-days", "2", "-subj", "/CN=longhaul-ca", "-keyout", "ca.key", "-out", "ca.crt")


def issue_server(folder, name, host="localhost"):
    """NAME.crt and NAME.key of a server that is reached as `host`."""
    folder = pathlib.Path(folder)
    _openssl(folder, "req", *EC, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host},IP:127.0.0.1\n")
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", f"{name}.crt",
             "-extfile", f"{name}.ext")


def issue(folder, name, site=None):
    """The flags of the worker of this name and site, or, without a site, of a gateway whose files have this name."""
    folder = pathlib.Path(folder)
    identity = f"worker/{name}?site={site}" if site else "gateway"
    _openssl(folder, "req", *EC, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName=URI:longhaul://{identity}\n")
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", f"{name}.crt",
             "-extfile", f"{name}.ext")
    return ["--tls-cert", folder / f"{name}.crt", "--tls-key", folder / f"{name}.key", "--tls-ca", folder / "ca.crt"]
