"""Who may ask, and how much, on the wire: keys, their rotation under load, rates, and what a refused client is told. Over the scripted
engine (tests/gateway), but for the subcommand that makes keys and the signal that has them read again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from api_keys import key_line, write_private
from certificates import issue_server, make_ca
from default_model import default_model
from programs import Program, build_folder, in_time, need_file, run_tests, wait_until
from raw_http import ask, chunks, elapsed, events, request
from test_http_raw import Gateway, SecureConnection, chat_body, completion_body

# Every route, a few that are none, and what might be taken for a public one.
ROUTES = ("/v1/models", "/models", "/v1/models/x", "/models/x%2Fy", "/v1/chat/completions", "/chat/completions", "/v1/completions",
          "/completions", "/version", "/fleet", "/trace/x", "/", "/v1", "/v1/", "/v1/health", "/v1/livez", "/nope", "/health/", "/Health",
          "/health%2f", "/health/../v1/models", "//health", "/./health", "/v1/models?/health", "/livez;/fleet", "/readyz%00", "/metrics", "/docs",
          "/v1/embeddings", "/admin", "/.env")
PUBLIC = ("/health", "/livez", "/readyz")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")


class KeyedTest(unittest.TestCase):
    """A gateway whose file of keys each test writes anew."""

    flags = ()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longhaul-keys-")
        self.path = os.path.join(self.folder.name, "keys")
        write_private(self.path, self.lines())
        self.gateway = Gateway("--api-key-file", self.path, *self.flags)
        self.port = self.gateway.port

    def tearDown(self):
        self.gateway.stop()
        self.folder.cleanup()

    def lines(self):
        return key_line("alice", "key-a") + key_line("root", "key-r", "admin")

    def read_again(self, text):
        write_private(self.path, text)
        self.gateway.program.process.stdin.write(b"\n")
        self.gateway.program.process.stdin.flush()
        return self.gateway.program.process.stdout.readline().decode().strip()

    def ask(self, method, path, body=None, key="key-a", headers=()):
        return ask(self.port, method, path, body, (("Authorization", f"Bearer {key}"), *headers) if key else headers)

    def complete(self, prompt="@@text=a", key="key-a", **more):
        return self.ask("POST", "/v1/completions", completion_body(prompt, **more), key)

    def refused(self, reply, code="rate_limit_exceeded"):
        """A 429 in full; returns the seconds after which it is worth coming again."""
        self.assertEqual(reply.status, 429, reply.body)
        error = reply.error()
        self.assertEqual((error["type"], error["code"]), ("rate_limit_error", code))
        wait = int(reply.headers["retry-after-ms"]) / 1000
        self.assertTrue(1 <= int(reply.headers["retry-after"]) <= 120)
        self.assertTrue(0 < wait <= 120)
        self.assertEqual(int(reply.headers["retry-after"]), max(1, -int(-wait // 1)))
        return wait


class Doors(KeyedTest):
    def test_every_route_wants_a_key(self):
        for path in ROUTES:
            for method in METHODS:
                for key in (None, "key-b", "key-a ", ""):
                    reply = self.ask(method, path, None, key)
                    self.assertEqual(reply.status, 401, (method, path, key))
                    self.assertIn("www-authenticate", reply.headers)
                    if method != "HEAD":
                        self.assertEqual(reply.error()["code"], "invalid_api_key")
            self.assertNotEqual(self.ask("GET", path).status, 401, path)
        for path in PUBLIC:
            self.assertEqual(self.ask("GET", path, key=None).status, 200)
        for body in (b"", b"{}", b"x" * 100000):
            self.assertEqual(self.ask("POST", "/v1/completions", body, None).status, 401)

    def test_spellings_of_the_header(self):
        for value, status in (("Bearer key-a", 200), ("bearer key-a", 200), ("Bearer  key-a", 200), ("Bearer key-A", 401), ("Basic key-a", 401),
                              ("key-a", 401), ("Bearer key-a, Bearer key-r", 401), ("Bearer", 401), ("Bearerkey-a", 401)):
            self.assertEqual(ask(self.port, "GET", "/v1/models", None, (("Authorization", value),)).status, status, value)
        for value, status in (("key-a", 200), ("key-A", 401), ("Bearer key-a", 401), ("", 401), ("k" * 300, 401)):
            self.assertEqual(ask(self.port, "GET", "/v1/models", None, (("X-Api-Key", value),)).status, status, value)
        for headers in ((("X-Api-Key", "key-a"), ("Authorization", "Bearer key-A")), (("Proxy-Authorization", "Bearer key-a"),), (("Cookie", "Authorization=Bearer key-a"),)):
            self.assertEqual(ask(self.port, "GET", "/v1/models", None, headers).status, 401, headers)

    def test_operators_routes_want_more(self):
        for path in ("/fleet", "/trace/x"):
            reply = self.ask("GET", path)
            self.assertEqual((reply.status, reply.error()["type"]), (403, "permission_error"))
            self.assertIn(self.ask("GET", path, key="key-r").status, (200, 404))
        self.assertEqual(self.complete(key="key-r").status, 200)

    def test_a_key_that_expires(self):
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
        self.assertEqual(self.read_again(key_line("alice", "key-a", f"expires={soon}")), "read")
        self.assertEqual(self.ask("GET", "/v1/models").status, 200)
        wait_until(lambda: self.ask("GET", "/v1/models").status == 401, "the key has expired")


class Rotation(KeyedTest):
    flags = ("--threads", "4")

    def test_a_wrong_file_keeps_the_old_keys(self):
        for text, says in (("secret-in-plain-text\n", "line 1: one word alone"), (key_line("a", "x") + "b\n", "line 2"), ("", "holds no key")):
            answer = self.read_again(text)
            self.assertIn(says, answer)
            self.assertNotIn("secret", answer)
            self.assertEqual(self.ask("GET", "/v1/models").status, 200)
            self.assertEqual(self.ask("GET", "/v1/models", key="x").status, 401)

    def test_under_load_nothing_is_lost(self):
        """Each key is valid two rotations long; who uses the newest one never notices."""
        newest, ended, results, asked = ["key-0"], threading.Event(), [], [0] * 4
        self.read_again(key_line("alice", "key-0", "admin"))

        def stream():
            body = chat_body("@@interval_ms=20 text=" + "x" * 60, stream=True)
            reply = self.ask("POST", "/v1/chat/completions", body, "key-0")
            found = chunks(reply.body)
            results.append("".join(c["choices"][0]["delta"].get("content") or "" for c in found) == "x" * 60)

        def requests(number):
            while not ended.is_set():
                results.append(self.complete(key=newest[0]).status == 200)
                asked[number] += 1

        def everybody_has_asked():
            before = list(asked)
            wait_until(lambda: all(now > then + 1 for now, then in zip(asked, before)), "each has asked with the newest key")

        threads = [threading.Thread(target=stream) for _ in range(8)] + [threading.Thread(target=requests, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.ask("GET", "/fleet", key="key-0").json()["running"] >= 8, "the streams run")
        for number in range(1, 30):
            answer = self.read_again(key_line("alice", f"key-{number - 1}") + key_line("alice", f"key-{number}"))
            self.assertEqual(answer, "read")
            newest[0] = f"key-{number}"
            everybody_has_asked()
        ended.set()
        for thread in threads:
            thread.join()
        self.assertGreater(len(results), 50)
        self.assertEqual(results.count(False), 0)
        self.assertEqual(self.complete(key="key-0").status, 401)


class Limits(KeyedTest):
    flags = ("--key-concurrent-requests", "2")

    def lines(self):
        return (key_line("alice", "key-a") + key_line("slow", "key-s", "requests-per-minute=60", "concurrent-requests=0") +
                key_line("short", "key-t", "tokens-per-minute=600") + key_line("root", "key-r", "admin", "concurrent-requests=0") +
                key_line("one", "key-1", "concurrent-requests=1"))

    def test_one_after_the_other_is_one_at_a_time(self):
        """Who has an answer's end may ask again at once."""
        for number in range(200):
            self.assertEqual(self.complete(key="key-1", stream=number % 2 == 0).status, 200, number)

    def test_requests_in_a_minute(self):
        start = time.monotonic()
        served = 0
        while (reply := self.complete(key="key-s")).status == 200:
            served += 1
            self.assertEqual(reply.headers["x-ratelimit-limit-requests"], "60")
            self.assertLessEqual(int(reply.headers["x-ratelimit-remaining-requests"]), 60 - served + elapsed(start) + 1)
            self.assertRegex(reply.headers["x-ratelimit-reset-requests"], r"\A[0-9]+ms\Z")
        self.assertTrue(60 <= served <= 61 + elapsed(start), served)
        wait = self.refused(reply)
        self.assertIn("60 requests a minute", reply.error()["message"])
        self.assertEqual(reply.headers["x-ratelimit-remaining-requests"], "0")
        self.assertLessEqual(wait, 1)
        self.assertEqual(self.complete().status, 200)  # another's rate is another's
        time.sleep(wait)
        start = time.monotonic()
        self.assertEqual(self.complete(key="key-s").status, 200)
        served = 1
        while self.complete(key="key-s").status == 200:
            served += 1
        self.assertLessEqual(served, 2 + elapsed(start))

    def test_tokens_in_a_minute(self):
        prompt = "x" * 159 + "@@text=abcde"  # 171 tokens, and 5 drawn
        start = time.monotonic()
        reply = self.complete(prompt, key="key-t")
        self.assertEqual(reply.headers["x-ratelimit-limit-tokens"], "600")
        self.assertEqual(reply.json()["usage"]["total_tokens"], 176)
        left = int(self.complete(prompt, key="key-t", stream=True).headers["x-ratelimit-remaining-tokens"])
        self.assertTrue(600 - 2 * 176 <= left <= 600 - 176 - 171 + 10 * (1 + elapsed(start)), left)
        self.assertEqual(self.complete(prompt, key="key-t").status, 200)
        reply = self.complete(prompt, key="key-t")
        wait = self.refused(reply)
        self.assertIn("600 tokens a minute", reply.error()["message"])
        longest = (171 - (600 - 3 * 176)) / 10
        self.assertTrue(longest - 1 - elapsed(start) < wait <= longest, wait)
        wait = self.refused(self.complete("a" * 80, key="key-t"))
        time.sleep(wait)
        self.assertEqual(self.complete("a" * 80, key="key-t").status, 200)

    def test_an_answer_is_not_cut_and_the_next_one_waits(self):
        start = time.monotonic()
        reply = self.complete("@@text=y", key="key-t", max_tokens=900, ignore_eos=True)
        self.assertEqual(reply.json()["usage"]["total_tokens"], 8 + 900)
        wait = self.refused(self.complete(key="key-t"))
        longest = (8 + 900 - 600 + 8) / 10
        self.assertTrue(longest - 1 - elapsed(start) < wait <= longest, wait)

    def test_requests_at_a_time(self):
        slow = [threading.Thread(target=self.complete, args=("@@first_ms=1500 text=a",)) for _ in range(2)]
        for thread in slow:
            thread.start()
        wait_until(lambda: self.ask("GET", "/fleet", key="key-r").json()["running"] == 2, "two run")
        reply = self.complete()
        self.refused(reply)
        self.assertIn("2 requests at a time", reply.error()["message"])
        self.assertEqual(self.complete(key="key-r").status, 200)
        for thread in slow:
            thread.join()
        self.assertEqual(self.complete().status, 200)

    def test_hang_ups_give_their_place_back(self):
        for _ in range(5):
            with self.assertRaises(TimeoutError):
                ask(self.port, "POST", "/v1/completions", completion_body("@@first_ms=20000 text=a"), (("Authorization", "Bearer key-a"),), 0.2)
        wait_until(lambda: self.complete().status == 200, "there is room again")

    def test_what_the_engine_refuses_costs_nothing(self):
        for _ in range(5):
            self.assertEqual(self.complete("@@refuse=unavailable", key="key-t").status, 503)
        reply = self.complete("@@text=a", key="key-t")
        self.assertEqual(reply.status, 200)
        self.assertGreaterEqual(int(reply.headers["x-ratelimit-remaining-tokens"]), 600 - 8 - 1)

    def test_a_full_queue_says_when(self):
        """By the rate at which sequences leave (found here within a factor of three); those who are refused get turns one after the other."""
        stop, left = threading.Event(), []

        def steady():
            while not stop.is_set():
                self.complete("@@first_ms=300 text=a", key="key-r")
                left.append(time.monotonic())

        threads = [threading.Thread(target=steady) for _ in range(3)]  # one leaves each 100 ms
        for thread in threads:
            thread.start()
        wait_until(lambda: len(left) >= 12, "some have left")
        waits = [self.refused(self.complete("@@refuse=busy", key="key-r"), "queue_full") for _ in range(4)]
        stop.set()
        for thread in threads:
            thread.join()
        interval = (left[11] - left[0]) / 11
        self.assertTrue(interval / 3 < min(waits) < 3 * interval, (waits, interval))
        self.assertTrue(1.5 * min(waits) < max(waits) < 10 * interval, (waits, interval))


class Lateness(KeyedTest):
    """--request-timeout and "timeout": what is late is told so, and stopped."""

    flags = ("--request-timeout-ms", "600")

    def late(self, prompt, seconds, status, **more):
        start = time.monotonic()
        reply = self.complete(prompt, **more)
        self.assertTrue(in_time(elapsed(start), seconds), elapsed(start))
        self.assertEqual(reply.status, status)
        self.assertEqual(reply.error()["code"], "request_timeout")
        return reply

    def none_runs(self):
        wait_until(lambda: self.ask("GET", "/fleet", key="key-r").json()["running"] == 0, "nothing runs any more")

    def test_before_the_first_token(self):
        for stream in (False, True):
            reply = self.late("@@first_ms=9000 text=a", 0.5, 408, timeout=0.5, stream=stream)
            self.assertEqual(reply.error()["type"], "request_timeout")
            self.assertEqual(reply.headers["connection"], "close")
            self.late("@@first_ms=9000 text=a", 0.6, 408, stream=stream)
            self.late("@@first_ms=9000 text=a", 0.6, 408, stream=stream, timeout=50)
        self.none_runs()

    def test_after_it(self):
        prompt = "@@interval_ms=100 text=" + "a" * 60
        reply = self.late(prompt, 0.55, 504, timeout=0.55)
        self.assertRegex(reply.error()["message"], "after [1-7] tokens")
        found = events(self.complete(prompt, timeout=0.55, stream=True).body)
        self.assertEqual(found[-1], "[DONE]")
        self.assertEqual(json.loads(found[-2])["error"]["code"], "request_timeout")
        self.assertTrue(1 <= len(found) - 2 <= 8, found)
        self.none_runs()

    def test_several_choices(self):
        self.late("@@first_ms=9000 text=a", 0.5, 408, timeout=0.5, n=4)
        self.none_runs()


class RealProgram(unittest.TestCase):
    """The real program: its subcommand, and SIGHUP."""

    @classmethod
    def setUpClass(cls):
        cls.program = need_file(build_folder() / "longhaul-gateway", "longhaul-gateway is not built")
        cls.model = default_model()
        if not cls.model:
            raise unittest.SkipTest("LONGHAUL_TEST_MODEL names no file, and deploy/fetch-model gets none")

    def run_key(self, *arguments):
        return subprocess.run([self.program, "key", *arguments], capture_output=True, text=True)

    def test_it_makes_keys(self):
        done = self.run_key("alice", "--admin")
        key = done.stderr.strip()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(key, r"\Alh-[0-9a-f]{64}\Z")
        self.assertEqual(done.stdout, key_line("alice", key, "admin"))
        self.assertNotEqual(self.run_key("alice").stderr, done.stderr)
        for arguments in ((), ("a b",), ("a/b",), ("",), ("x" * 64,), ("alice", "--nope")):
            done = self.run_key(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertEqual(done.stdout, "")

    def start(self, folder, keys):
        return Program("gateway", [self.program, "--model", self.model, "--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0",
                                   "--api-key-file", keys], folder)

    def test_signal_and_conversion(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = write_private(os.path.join(folder, "plain"), "sk-PLAIN\n")
            refused = self.start(folder, plain)
            self.assertEqual(refused.wait(), 1)
            refused.stop()
            text = refused.log_text()
            self.assertIn("longhaul-gateway key NAME --from", text)
            self.assertNotIn("PLAIN", text)
            line = self.run_key("alice", "--from", plain).stdout
            self.assertEqual(line, key_line("alice", "sk-PLAIN"))
            keys = write_private(os.path.join(folder, "keys"), line)

            gateway = self.start(folder, keys)
            try:
                port = int(wait_until(lambda: re.search(r"api_port=(\d+)", gateway.log_text()), "it listens")[1])

                def status(key):
                    return ask(port, "GET", "/v1/models", None, (("Authorization", f"Bearer {key}"),)).status

                self.assertEqual([status("sk-PLAIN"), status("sk-NEW")], [200, 401])
                write_private(keys, key_line("alice", "sk-NEW"))
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: status("sk-NEW") == 200, "the keys are read again")
                self.assertEqual(status("sk-PLAIN"), 401)
                write_private(keys, "alice\n")
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: "line 1" in gateway.log_text(), "the wrong line is told")
                self.assertEqual(status("sk-NEW"), 200)
                self.assertNotIn("sk-", gateway.log_text().replace(text, ""))
            finally:
                self.assertEqual(gateway.stop(), 0)

    def test_the_certificate_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            make_ca(folder)
            for name in ("first", "second"):
                issue_server(folder, name)
            paths = [os.path.join(folder, f"api.{ending}") for ending in ("crt", "key")]

            def use(name):
                for path, ending in zip(paths, ("crt", "key")):
                    shutil.copy(os.path.join(folder, f"{name}.{ending}"), path + ".new")
                    os.replace(path + ".new", path)

            use("first")
            gateway = Program("gateway", [self.program, "--model", self.model, "--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0",
                                          "--api-tls-cert", paths[0], "--api-tls-key", paths[1]], folder)
            try:
                port = int(wait_until(lambda: re.search(r"api_port=(\d+)", gateway.log_text()), "it listens").group(1))

                def shown():
                    with SecureConnection(port, folder) as connection:
                        connection.send(request("GET", "/livez"))
                        self.assertEqual(connection.reply().status, 200)
                        return dict(pair[0] for pair in connection.socket.getpeercert()["subject"])["commonName"]

                self.assertEqual(shown(), "first")
                use("second")
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: shown() == "second", "it is read again")
                shutil.copy(os.path.join(folder, "first.key"), paths[1])
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: "stays as it was" in gateway.log_text(), "that they do not belong together is told")
                self.assertEqual(shown(), "second")
            finally:
                self.assertEqual(gateway.stop(), 0)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
