"""A hub of models on loopback, which does to each file what a test tells it to: cuts, lies, redirects, refuses."""

import hashlib
import http.server
import json
import ssl
import threading
import time
import urllib.parse


class File:
    """What the hub has, and how it serves it. The faults are used up, one by one, as requests come."""

    def __init__(self, content):
        self.content = content
        self.etag = f'"{hashlib.md5(content).hexdigest()}"'
        self.cuts = []  # offsets in the file at which the connection ends, each once
        self.statuses = []  # (status, headers) of the next answers
        self.changes = None  # (content, etag) after the next cut
        self.pause_s = 0  # before each 64 KiB
        self.length_lie = 0  # added to Content-Length, once
        self.is_chunked = False
        self.has_ranges = True
        self.heeds_if_range = True
        self.redirect = None  # to that URL
        self.listed_bytes = len(content)
        self.sha256 = hashlib.sha256(content).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub, path = self.server.hub, urllib.parse.unquote(self.path.split("?")[0])
        hub.requests.append((self.path, dict(self.headers)))
        if path.startswith("/api/models/"):
            return self.list_files(hub, path)
        name = path.split("/resolve/main/")[-1].lstrip("/")
        file = hub.files.get(name)
        if not file:
            return self.refuse(404)
        if file.statuses:
            status, headers = file.statuses.pop(0)
            return self.refuse(status, headers)
        if file.redirect:
            return self.refuse(302, {"Location": file.redirect})
        return self.send_file(file)

    def refuse(self, status, headers=()):
        body = f"an answer with {status}\n".encode()
        self.send_response(status)
        for item in dict(headers).items():
            self.send_header(*item)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def list_files(self, hub, path):
        """Two files a page."""
        if path != f"/api/models/{hub.repository}/tree/main":
            return self.refuse(401)
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        start = int(query.get("cursor", ["0"])[0])
        entries = [{"type": "directory", "path": "sub", "size": 0, "oid": "0"}] + [
            {"type": "file", "path": name, "size": file.listed_bytes, "oid": "1", "lfs": {"oid": file.sha256, "size": file.listed_bytes, "pointerSize": 1}}
            for name, file in hub.files.items()] + [{"type": "file", "path": "README.md", "size": 10, "oid": "2"}]
        body = json.dumps(entries[start:start + 2]).encode()
        self.send_response(200)
        if start + 2 < len(entries):
            self.send_header("Link", f'<{hub.url}{path}?recursive=true&cursor={start + 2}>; rel="next"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def start_of(self, file):
        """Where the answer is to begin; None: nowhere."""
        wanted = self.headers.get("Range")
        tag = self.headers.get("If-Range")
        if not wanted or not file.has_ranges or (tag and tag != file.etag and file.heeds_if_range):
            return 0
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        return start if start < len(file.content) else None

    def send_file(self, file):
        start, content = self.start_of(file), file.content
        if start is None:
            return self.refuse(416, {"Content-Range": f"bytes */{len(content)}"})
        is_part = file.has_ranges and self.headers.get("Range") and (start > 0 or not self.headers.get("If-Range"))
        self.send_response(206 if is_part else 200)
        if file.etag:
            self.send_header("ETag", file.etag)
        if is_part:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if file.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(content) - start + file.length_lie))
            file.length_lie, lie = 0, file.length_lie
            self.close_connection = lie != 0
        self.end_headers()
        cut = next((offset for offset in file.cuts if offset >= start), None)
        end = len(content) if cut is None else cut
        if cut is not None:
            file.cuts.remove(cut)
            self.close_connection = True
        for at in range(start, end, 1 << 16):
            piece = content[at:min(at + (1 << 16), end)]
            time.sleep(file.pause_s)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if file.is_chunked else piece)
        if file.is_chunked and cut is None:
            self.wfile.write(b"0\r\n\r\n")
        if cut is not None and file.changes:
            (file.content, file.etag), file.changes = file.changes, None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that hangs up


class Hub:
    """certificate, key: files of what it shows as it speaks TLS."""

    def __init__(self, repository="maker/tiny-GGUF", certificate=None, key=None):
        self.repository = repository
        self.files = {}
        self.requests = []  # (path, headers)
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.hub = self
        self.port = self.server.server_port
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def add(self, name, content):
        self.files[name] = File(content)
        return self.files[name]

    def asked(self, name):
        """The headers of the requests for that file."""
        return [headers for path, headers in self.requests if path.endswith("/" + name)]
