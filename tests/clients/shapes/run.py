"""Sends each of shape_list.py's requests to a gateway with two workers and, where it can be had, to llama.cpp's server (as the package xllamacpp has it)
with the same model, one after the other, and prints for each whether it is taken: a 200 whose answer lets its client go on, and not one that is another than asked for (in the table:
"otherwise"). Arguments: the Python
that has xllamacpp; how many of the shapes (default: all)."""

import collections
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "system")]

from fleet import Fleet
from programs import Program, free_port, need_model, wait_until
from raw_http import Connection, ask
from shape_list import SHAPES, Stream

SERVER = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.n_ctx, p.n_parallel, p.use_jinja = sys.argv[1], int(sys.argv[2]), 8192, 2, True
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1  # its threads wait for each other by spinning, which is slow beside other programs
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
GROUPS = {"/v1/chat": "chat", "/v1/completions": "completions", "/v1/responses": "Responses", "/v1/messages": "Anthropic's", "/api/": "Ollama's"}


def group_of(shape):
    if dict(shape.headers).get("anthropic-version"):
        return "Anthropic's"
    return next((name for begin, name in GROUPS.items() if shape.path.startswith(begin)), "others")


def tell(shape, port, model):
    """"": taken; else why not, in few words."""
    named = {**shape.body, "model": model} if isinstance(shape.body, dict) and "model" in shape.body else shape.body
    body = b"" if named is None else named if isinstance(named, bytes) else json.dumps(named).encode()
    head = [f"{'GET' if shape.body is None else 'POST'} {shape.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
            f"Content-Length: {len(body)}", "Connection: close", *(f"{name}: {value}" for name, value in shape.headers)]
    with Connection(port) as connection:
        connection.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        reply = connection.reply()
    if reply is None:
        return "no answer"
    text = reply.body.decode(errors="replace")
    if reply.status != 200:
        return f"{reply.status}: {' '.join(text.split())[:100]}"
    streams = isinstance(shape.body, dict) and (shape.body.get("stream") or (shape.path == "/api/generate"))
    try:
        is_right = shape.check(Stream(text) if streams else json.loads(text))
    except (AssertionError, KeyError, IndexError, TypeError, ValueError) as error:
        return f"an answer that its client cannot use: {type(error).__name__} {error}: {' '.join(text.split())[:160]}"
    return "" if is_right else f"another answer than asked for: {' '.join(text.split())[:160]}"


def run_all(port, shapes):
    told, model = [], ask(port, "GET", "/v1/models").json()["data"][0]["id"]
    for number, shape in enumerate(shapes, 1):
        told.append(tell(shape, port, model))
        print(f"{number:4} {group_of(shape):12} {shape.client}: {shape.what}: {told[-1] or 'taken'}", flush=True)
    return told


def of_llama(python, shapes, folder):
    if subprocess.run([python, "-c", "import xllamacpp"], stderr=subprocess.DEVNULL).returncode:
        print("llama.cpp's server is not there: pip install xllamacpp")
        return None
    port = free_port()
    server = Program("llama", [python, "-c", SERVER, need_model(), port], folder, stdin=subprocess.PIPE)
    try:
        wait_until(lambda: "listening on" in server.log_text() or not server.is_running(), "llama.cpp's server listens")
        return run_all(port, shapes)
    finally:
        server.process.stdin.close()
        server.stop()


def cell_of(told):
    taken, refused = told.count(""), sum(why[:4].rstrip(":").isdigit() for why in told)
    others = len(told) - taken - refused
    return f"{taken}, {others} otherwise" if others else str(taken)


def main(python, count=None):
    shapes = SHAPES[:count and int(count)]
    with Fleet(2) as fleet:
        print("== Longhaul", flush=True)
        columns = {"Longhaul": run_all(fleet.port, shapes)}
        print("== llama.cpp's server", flush=True)
        columns["llama.cpp's server"] = of_llama(python, shapes, fleet.folder)
    columns = {name: told for name, told in columns.items() if told}
    totals = collections.Counter(map(group_of, shapes))
    print(f"\n| shapes | of | {' | '.join(columns)} |\n| --- | --- |{' --- |' * len(columns)}")
    for group in [*totals, "all"]:
        cells = [cell_of([why for why, shape in zip(told, shapes) if group in ("all", group_of(shape))]) for told in columns.values()]
        print(f"| {group} | {totals.get(group, len(shapes))} | {' | '.join(cells)} |")
    sys.exit(any(why and not (shape.refused and f"'{shape.refused}'" in why) for why, shape in zip(columns["Longhaul"], shapes)))


if __name__ == "__main__":
    main(*sys.argv[1:])
