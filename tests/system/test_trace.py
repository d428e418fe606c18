"""GET /trace/{id} and "longhaul": {"timing": true}, from real programs: events that a viewer can draw, in an order that can be, and figures
that add up."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from api_keys import key_line, write_private
from fleet import Fleet
from programs import build_folder, run_tests, wait_until

PROMPT = "The sites are joined by ordinary links, so the whole design serves one aim: nothing waits. " * 10
KEY = "a-secret-of-the-house"


def ask(fleet, path, body=None, key=None, headers=()):
    request = urllib.request.Request(fleet.url + path, json.dumps(body).encode() if body else None, dict(headers))
    if body:
        request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", "Bearer " + key)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def complete(fleet, **more):
    status, text = ask(fleet, "/v1/completions", {"prompt": PROMPT, "max_tokens": 6, "temperature": 0, **more}, headers=more.pop("headers", ()))
    assert status == 200, text
    return json.loads(text)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(3, ["--overlap", "rows=48,columns=3", "--prefix-cache", "off"]).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.fleet.__exit__(None, None, None)

    def trace_of(self, name):
        def whole():
            status, text = ask(self.fleet, "/trace/" + name)
            self.assertEqual(status, 200, text)
            trace = json.loads(text)
            return trace if trace["otherData"]["over"] else None

        return wait_until(whole, "the trace is over")

    def check_tracks(self, trace):
        """Names of processes and threads; events are well-formed, within the request, and nest; returns the X events by track."""
        names, tracks = {}, {}
        end = None
        for event in trace["traceEvents"]:
            self.assertIn(event["ph"], "MXbe")
            if event["ph"] == "M":
                names[event["name"], event["pid"], event["tid"]] = event["args"]
            elif event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                tracks.setdefault((event["pid"], event["tid"]), []).append(event)
                if event["cat"] == "request":
                    end = event["dur"]
        for track, events in tracks.items():
            self.assertIn(("thread_name", *track), names)
            self.assertIn(("process_name", track[0], 1), names)
            open_ends = []
            for event in events:
                self.assertLessEqual(event["ts"] + event["dur"], end + 1000, event)
                while open_ends and open_ends[-1] <= event["ts"]:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(event["ts"] + event["dur"], open_ends[-1], event)
                open_ends.append(event["ts"] + event["dur"])
        labels = [names["process_name", pid, 1]["name"] + ": " + names["thread_name", pid, tid]["name"] for pid, tid in sorted(tracks)]
        self.assertEqual(labels, ["gateway: request", "gateway: wire to worker-1", "worker worker-1: compute", "worker worker-1: wire to worker-2",
                                  "worker worker-2: compute", "worker worker-2: wire to worker-3", "worker worker-3: compute",
                                  "worker worker-3: wire to gateway"])
        return {label: tracks[track] for label, track in zip(labels, sorted(tracks))}

    def check_wire(self, trace, sender, wire, receiver):
        """A shard is on the wire after it was computed and before it was taken, and each goes once."""
        slack = 1000 * sum(v or 0 for v in trace["otherData"]["clock_error_ms"].values())
        place = lambda e: (e["args"]["step"], e["args"]["first_row"], e["args"]["first_column"])
        emitted = {place(e): e["ts"] + e["dur"] for e in sender if e["cat"] == "emit"}
        taken = {place(e): e["ts"] for e in receiver if e["cat"] == "accept"}
        shards = [e for e in wire if e["cat"] == "shard"]
        self.assertEqual(sorted(emitted), sorted(place(e) for e in shards))
        self.assertEqual(sorted(emitted), sorted(taken))
        for event in shards:
            self.assertGreaterEqual(event["ts"], emitted[place(event)] - slack, event)
            self.assertLessEqual(event["ts"] + event["dur"], taken[place(event)] + slack, event)
            self.assertGreaterEqual(event["args"]["bytes"], event["args"]["shard_rows"] * event["args"]["columns"] * 4)

    def test_trace_events(self):
        began = time.monotonic()
        answer = complete(self.fleet)
        took_ms = (time.monotonic() - began) * 1000
        trace = self.trace_of(answer["id"])
        other = trace["otherData"]
        self.assertEqual(other["id"], answer["id"])
        self.assertEqual(other["steps_dropped"], 0)
        self.assertEqual(other["tokens"], 6)
        self.assertEqual(other["prompt_tokens"], answer["usage"]["prompt_tokens"])
        self.assertEqual(set(other["clock_error_ms"]), {"worker-1", "worker-2", "worker-3"})
        for error in other["clock_error_ms"].values():
            self.assertLess(error, took_ms)  # one machine, but a busy one: less than the request took
        tracks = self.check_tracks(trace)
        for number in (1, 2):
            self.check_wire(trace, tracks[f"worker worker-{number}: compute"], tracks[f"worker worker-{number}: wire to worker-{number + 1}"],
                            tracks[f"worker worker-{number + 1}: compute"])
        rows = sum(e["args"]["rows"] for e in tracks["worker worker-3: compute"] if e["cat"] == "finish" and e["args"]["prefill"])
        self.assertEqual(rows, other["prompt_tokens"])
        begun = [e["id"] for e in trace["traceEvents"] if e["ph"] == "b"]
        self.assertEqual(sorted(begun), sorted(e["id"] for e in trace["traceEvents"] if e["ph"] == "e"))
        self.assertEqual(len(begun), other["steps"])

    def test_names(self):
        complete(self.fleet, headers={"x-request-id": "mine.7"}, stream=False)
        self.assertEqual(self.trace_of("mine.7")["otherData"]["request_id"], "mine.7")
        for name in ("chatcmpl-none", "%00", "x" * 300, "a%2Fb", ""):
            status, text = ask(self.fleet, "/trace/" + name)
            self.assertEqual(status, 404)
            self.assertEqual(json.loads(text)["error"]["code"], "trace_not_found")
        self.assertEqual(ask(self.fleet, "/trace")[0], 404)
        self.assertEqual(ask(self.fleet, "/v1/trace/mine.7")[0], 404)

    def check_timing(self, timing):
        self.assertTrue(timing["complete"], timing)
        self.assertAlmostEqual(timing["compute_ms"] + timing["wire_ms"] + timing["wait_ms"], timing["prefill_ms"], delta=0.01)
        self.assertLessEqual(timing["prefill_ms"], timing["time_to_first_token_ms"] + 0.001)
        self.assertLessEqual(timing["time_to_first_token_ms"], timing["total_ms"])
        self.assertEqual([s["worker"] for s in timing["stages"]], ["worker-1", "worker-2", "worker-3"])
        self.assertEqual([h["from"] for h in timing["hops"]], ["gateway", "worker-1", "worker-2", "worker-3"])
        busiest = max(part["busy_ms"] for part in timing["stages"] + timing["hops"])
        self.assertAlmostEqual(timing["bound_ms"], busiest + timing["around_ms"], delta=0.01)
        self.assertLessEqual(timing["bound_ms"], timing["sum_ms"] + 0.001)
        self.assertLessEqual(timing["bound_ms"], timing["prefill_ms"] * 1.02 + 1)
        self.assertAlmostEqual(timing["distance"], timing["prefill_ms"] / timing["bound_ms"], delta=0.001)
        self.assertEqual(timing["decode"]["tokens"], 5)
        self.assertGreater(timing["decode"]["bound_ms"], 0)
        self.assertEqual(timing["chunks"][0], 48)
        self.assertIn("48", timing["plan"])
        self.assertGreaterEqual(timing["predicted_ms"] or 0, 0)
        self.assertEqual(timing["chunk_count"], len(timing["chunks"]))
        self.assertEqual([len(h["cut"]) for h in timing["hops"]], [0, 3, 3, 0])
        self.assertEqual(timing["hops"][1]["cut"][-1], 576)
        for part in timing["stages"] + timing["hops"]:
            self.assertLessEqual(part["busy_share"], 1)

    def test_timing(self):
        answer = complete(self.fleet, longhaul={"timing": True})
        self.check_timing(answer["longhaul"]["timing"])
        self.assertEqual(sum(answer["longhaul"]["timing"]["chunks"]), answer["usage"]["prompt_tokens"])
        self.assertEqual(self.trace_of(answer["id"])["otherData"]["timing"]["chunks"], answer["longhaul"]["timing"]["chunks"])
        self.assertNotIn("longhaul", complete(self.fleet))
        self.assertNotIn("longhaul", complete(self.fleet, longhaul={"timing": False}))
        for wrong in ({"timing": 1}, {"timing": "yes"}, 7):
            status, text = ask(self.fleet, "/v1/completions", {"prompt": "a", "longhaul": wrong})
            self.assertEqual(status, 400, text)

    def test_timing_of_a_stream(self):
        for usage in (False, True):
            body = {"prompt": PROMPT, "max_tokens": 6, "temperature": 0, "stream": True, "longhaul": {"timing": True}}
            if usage:
                body["stream_options"] = {"include_usage": True}
            status, text = ask(self.fleet, "/v1/completions", body)
            self.assertEqual(status, 200)
            lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
            self.assertEqual(lines[-1], "[DONE]")
            chunks = [json.loads(line) for line in lines[:-1]]
            self.check_timing(chunks[-1]["longhaul"]["timing"])
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertEqual("usage" in chunks[-1], usage)
            for chunk in chunks[:-1]:
                self.assertNotIn("longhaul", chunk)

    def test_several_choices_and_stop_strings(self):
        answer = complete(self.fleet, n=3, stop=["ordinary"], temperature=1, seed=5, longhaul={"timing": True})
        self.assertTrue(answer["longhaul"]["timing"]["complete"])
        self.check_tracks(self.trace_of(answer["id"]))

    def test_the_openai_client_still_reads_it(self):
        try:
            import openai
        except ImportError:
            self.skipTest("the Python package openai is not installed")
        client = openai.OpenAI(base_url=self.fleet.url + "/v1", api_key="none", _strict_response_validation=True, max_retries=0)
        ask_for = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0, "model": client.models.list().data[0].id,
                   "extra_body": {"longhaul": {"timing": True}}}
        answer = client.chat.completions.create(**ask_for)
        self.assertGreater(answer.longhaul["timing"]["prefill_ms"], 0)
        chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask_for))
        self.assertGreater(chunks[-1].longhaul["timing"]["prefill_ms"], 0)
        self.assertEqual(chunks[-1].usage.completion_tokens, answer.usage.completion_tokens)


class SkewedFleet(Fleet):
    """Workers whose monotonic clocks are hours apart, as those of several machines are."""

    skews = (5000000, 90000, -1000)

    def start_worker(self, number):
        program, wrapper = self.worker_program, os.path.join(self.folder, f"skewed-{number}")
        with open(wrapper, "w", opener=lambda p, f: os.open(p, f, 0o700)) as file:
            file.write(f'#!/bin/sh\nexec unshare -T --monotonic {self.skews[number]} "{program}" "$@"\n')
        self.worker_program = wrapper
        try:
            return super().start_worker(number)
        finally:
            self.worker_program = program


def can_skew():
    """As root, and where a program enters its time namespace when it is executed."""
    probe = ["unshare", "-T", "--monotonic", "7000000", sys.executable, "-c", "import time; print(time.monotonic())"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True)
    except OSError:
        return False
    return done.returncode == 0 and float(done.stdout) > 7000000


class SkewedTest(TraceTest):
    """The same with clocks that have nothing to do with each other."""

    @classmethod
    def setUpClass(cls):
        if not can_skew():
            raise unittest.SkipTest("no time namespaces here")
        cls.fleet = SkewedFleet(3, ["--overlap", "rows=48,columns=3", "--prefix-cache", "off"]).__enter__()


class CommandTest(unittest.TestCase):
    """longhaul-gateway trace: the chart, and what it says where there is none."""

    def draw(self, *arguments):
        program = build_folder() / "longhaul-gateway"
        done = subprocess.run([program, "trace", *arguments], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        return done.returncode, done.stdout, done.stderr

    def test_chart(self):
        with Fleet(2, ["--overlap", "rows=48,columns=3", "--prefix-cache", "off"]) as fleet:
            answer = complete(fleet)
            status, text, error = self.draw(answer["id"], "--url", fleet.url + "/v1/", "--width", "90")
            self.assertEqual((status, error), (0, ""))
            lines = text.split("\n")
            self.assertIn(answer["id"], lines[0])
            rows = lines[3:9]
            self.assertEqual([row.split("  ")[0].strip() or row.strip().split("  ")[0] for row in rows],
                             ["gateway", "> worker-1", "worker-1", "> worker-2", "worker-2", "> gateway"])
            for row in rows:
                self.assertEqual(len(row), 90)
            self.assertRegex(rows[2], "1+'?.*2+'?.*3")
            self.assertNotIn("\033", text)
            self.assertIn("times the bound", text)
            status, whole, _ = self.draw("--part=all", "--url", fleet.url, answer["id"])
            self.assertEqual(status, 0)
            self.assertIn("d", whole.split("\n")[3])
            status, _, error = self.draw("nobody", "--url", fleet.url)
            self.assertEqual(status, 1)
            self.assertIn("There is no trace of 'nobody'", error)

    def test_errors(self):
        for arguments, status, message in (
            (["x", "--url", "http://127.0.0.1:1"], 1, "cannot be asked"),
            (["x", "--url", "ftp://127.0.0.1"], 1, "--url ftp://127.0.0.1"),
            (["x", "--api-key-file", "/does/not/exist"], 1, "/does/not/exist"),
            (["x", "--part", "some"], 2, "--part"),
            (["x", "y"], 2, "unexpected argument"),
            ([], 2, "Give a request's id"),
        ):
            got, text, error = self.draw(*arguments)
            self.assertEqual((got, text), (status, ""), error)
            self.assertIn(message, error)
        self.assertIn("--url URL", self.draw("--help")[1])


class KeyedTest(unittest.TestCase):
    def test_traces_need_the_key_and_can_be_off(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_private(os.path.join(folder, "key"), KEY + "\n")
            keys = write_private(os.path.join(folder, "keys"), key_line("operator", KEY, "admin") + key_line("user", "other"))
            with Fleet(1, ["--api-key-file", keys, "--traces", "2"]) as fleet:
                ids = []
                for _ in range(3):
                    status, text = ask(fleet, "/v1/completions", {"prompt": "One", "max_tokens": 1}, KEY)
                    self.assertEqual(status, 200, text)
                    ids.append(json.loads(text)["id"])
                self.assertEqual([ask(fleet, "/trace/" + i, key=KEY)[0] for i in ids], [404, 200, 200])
                self.assertEqual(ask(fleet, "/trace/" + ids[2])[0], 401)
                command = [build_folder() / "longhaul-gateway", "trace", ids[2], "--url", fleet.url]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertIn("give --api-key-file", done.stderr)
                done = subprocess.run([*command, "--api-key-file", path], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(ask(fleet, "/trace/none")[0], 401)
                self.assertEqual(ask(fleet, "/trace/" + ids[2], key="other")[0], 403)

    def test_traces_are_charged(self):
        """Rendering one takes longer than most requests take to be read."""
        with tempfile.TemporaryDirectory() as folder:
            lines = key_line("maker", "other") + key_line("viewer", KEY, "admin", "reading-ms-per-minute=1")
            keys = write_private(os.path.join(folder, "keys"), lines)
            with Fleet(1, ["--api-key-file", keys]) as fleet:
                status, text = ask(fleet, "/v1/completions", {"prompt": PROMPT, "max_tokens": 32}, "other")
                self.assertEqual(status, 200, text)
                answers = [ask(fleet, "/trace/" + json.loads(text)["id"], key=KEY) for _ in range(50)]
                self.assertEqual(answers[0][0], 200)
                status, text = answers[-1]
                self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "rate_limit_exceeded"))

    def test_off(self):
        with Fleet(1, ["--traces", "0"]) as fleet:
            answer = complete(fleet)
            status, text = ask(fleet, "/trace/" + answer["id"])
            self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "tracing_off"))
            status, text = ask(fleet, "/v1/completions", {"prompt": "a", "longhaul": {"timing": True}})
            self.assertEqual(status, 400)
            self.assertEqual(json.loads(text)["error"]["param"], "longhaul.timing")


if __name__ == "__main__":
    run_tests(sys.modules[__name__], sanitized=["TraceTest", "CommandTest.test_chart", "KeyedTest.test_off"])
