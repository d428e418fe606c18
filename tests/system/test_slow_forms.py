"""What small requests that take long to read may cost others, and the client itself: the threads that answer probes and carry streams do not read them,
another client's requests do not wait for them, and all of their time is the client's own, also where nothing comes of it. Over the scripted engine
(tests/gateway). Times are compared with that of one such form, measured in the same run."""

import os
import sys
import tempfile
import threading
import time
import unittest

from api_keys import key_line, write_private
from programs import run_tests, wait_until
from raw_http import Connection, ask, request
from slow_forms import slow_body
from test_http_raw import Gateway, chat_body

PATH = "/v1/completions"
CONNECTIONS = 8
PROBES = 11


def median(values):
    return sorted(values)[len(values) // 2]


class KeyedGateway:
    """with KeyedGateway("name words", ...) as gateway: ...   Each name is a client, whose key it also is."""

    def __init__(self, *clients, flags=()):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-forms-")
        path = os.path.join(self.folder.name, "keys")
        write_private(path, "".join(key_line(line.split()[0], *line.split()) for line in clients))
        self.gateway = Gateway("--api-key-file", path, *flags)
        self.port = self.gateway.port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        self.folder.cleanup()

    def ask(self, key, method, path, body=None):
        return ask(self.port, method, path, body, (("Authorization", f"Bearer {key}"),))

    def seconds(self, key, method, path, body, status):
        begin = time.monotonic()
        reply = self.ask(key, method, path, body)
        assert reply.status == status, (reply.status, reply.body)
        return time.monotonic() - begin


class Others(unittest.TestCase):
    def test_nobody_waits_for_forms_of_another_client(self):
        with KeyedGateway("mallory", "alice", flags=("--threads", "1")) as gateway:
            form_s = median([gateway.seconds("mallory", "POST", PATH, slow_body(n), 400) for n in range(3)])
            is_over, number = threading.Event(), iter(range(10, 10**6))

            def attack():
                while not is_over.is_set():
                    gateway.ask("mallory", "POST", PATH, slow_body(next(number)))

            threads = [threading.Thread(target=attack) for _ in range(CONNECTIONS)]
            for thread in threads:
                thread.start()
            probes = [gateway.seconds("alice", "GET", "/livez", None, 200) for _ in range(PROBES)]
            chats = [gateway.seconds("alice", "POST", "/v1/chat/completions", chat_body("@@text=a"), 200) for _ in range(PROBES)]
            is_over.set()
            for thread in threads:
                thread.join()
            print(f"    a form {form_s * 1e3:.0f} ms; a probe beside {CONNECTIONS} of them {median(probes) * 1e3:.1f} ms, a chat {median(chats) * 1e3:.1f} ms")
            # On the thread of the server each would wait for several of the forms.
            self.assertLess(median(probes), form_s / 2)
            self.assertLess(median(chats), form_s / 2)


class Own(unittest.TestCase):
    def test_a_refused_form_is_a_request(self):
        with KeyedGateway("mallory requests-per-minute=3", "alice") as gateway:
            begin = time.monotonic()
            statuses = [gateway.ask("mallory", "POST", PATH, slow_body(n)).status for n in range(10)]
            # A further one is due after each 20 s.
            fair = 3 + int((time.monotonic() - begin) / 20)
            self.assertEqual(statuses[:3], [400] * 3)
            self.assertLessEqual(statuses.count(400), fair)
            self.assertEqual(set(statuses[3:]) - {400}, {429})
            self.assertEqual(gateway.ask("mallory", "POST", PATH, {"prompt": "@@text=a"}).status, 429)
            self.assertEqual(gateway.ask("alice", "POST", PATH, {"prompt": "@@text=a"}).status, 200)

    def refused(self, reply):
        self.assertEqual((reply.status, reply.error()["code"]), (429, "rate_limit_exceeded"))
        self.assertIn("processor time", reply.error()["message"])
        # More than one form has overdrawn it by cannot be missing.
        self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 120)
        self.assertGreater(int(reply.headers["retry-after-ms"]), 0)

    def test_time_is_the_clients_own(self):
        with KeyedGateway("mallory reading-ms-per-minute=100", "alice") as gateway:
            replies = [gateway.ask("mallory", "POST", PATH, slow_body(n)) for n in range(12)]
            read = [reply.status for reply in replies].index(429)
            self.assertLess(read, 10)
            self.assertEqual({reply.status for reply in replies[:read]}, {400})
            for reply in replies[read:]:
                self.refused(reply)
            for path, body in (("/tokenize", {"prompt": "a"}), ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}]})):
                self.assertEqual(gateway.ask("mallory", "POST", path, body).status, 429, path)
            self.assertEqual(gateway.ask("mallory", "GET", "/v1/models").status, 200)
            self.assertEqual(gateway.ask("alice", "POST", "/tokenize", {"prompt": "a"}).status, 200)

    def test_who_hangs_up_pays_as_well(self):
        with KeyedGateway("mallory reading-ms-per-minute=20") as gateway:
            with Connection(gateway.port) as connection:
                connection.send(request("POST", PATH, slow_body(), (("Authorization", "Bearer mallory"),)))
                time.sleep(0.05) # it is being read, or will be
            wait_until(lambda: gateway.ask("mallory", "POST", "/tokenize", {"prompt": "a"}).status == 429, "the time that was used counts")

    def test_without_keys_the_client_is_its_address(self):
        gateway = Gateway("--reading-ms-per-minute", "50")
        try:
            statuses = [ask(gateway.port, "POST", PATH, slow_body(n)).status for n in range(8)]
            self.assertEqual((statuses[0], statuses[-1]), (400, 429))
            with Connection(gateway.port, source="127.0.0.2") as connection:
                connection.send(request("POST", "/tokenize", {"prompt": "a"}))
                self.assertEqual(connection.reply().status, 200)
        finally:
            gateway.stop()


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
