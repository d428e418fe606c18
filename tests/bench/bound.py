"""The bound of a chain (DESIGN.md), made of stage times that were measured alone and of the links' own figures, and of nothing that a request
through the chain has shown."""

import dataclasses
import json
import os
import statistics
import subprocess

import sites as bench_sites

# Of a link's rate, in packets of 1500 bytes with TCP's timestamps.
PAYLOAD_SHARE = 1448 / 1500
# Lengths of the chunks in which a stage by itself is timed, in this order. The first run warms, the last one's time is the stage's: with chunks of 64
# it is the best, or as good as the best.
CHUNKS = (64, 16, 32, 64)


def row_bytes(width, wire):
    """A row of the activation on the wire (common/protocol/PROTOCOL.md); frames and manifests come on top, and are not in the bound."""
    blocks = -(-width // 32)
    return {"f32": 4 * width, "f16": 2 * width + blocks, "q8": width + 2 * blocks}[wire]


@dataclasses.dataclass
class StageTimes:
    chunks_s: dict  # by rows of the prompt, and by the chunks' length
    row_s: dict  # by rows that are there: one more
    width: int

    def prompt_s(self, rows):
        return self.chunks_s[rows][min(CHUNKS[-1], rows)]


def measure_stage(build, model, first, last, layers, prompts, slowdown, core):
    """A stage by itself on a core of its own, at the worker's slowdown. Between two single rows the other stages' share of the model is read, since
    they share this machine's caches, as sites would not."""
    others = os.path.getsize(model) * (layers - (last - first)) // layers
    result = StageTimes({}, {}, 0)
    for rows in prompts:
        done = subprocess.run(
            bench_sites.first(["taskset", "-c", core, build / "tests" / "stage_times", "--model", model, "--first", first, "--last", last, "--rows", rows,
                               "--chunks", ",".join(str(min(chunk, rows)) for chunk in CHUNKS), "--slowdown", slowdown, "--others-bytes", others, "--repeats", 1]),
            capture_output=True, text=True, check=True, start_new_session=True,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        result.chunks_s[rows] = {line["chunk"]: line["prompt_us"] * 1e-6 for line in lines}
        result.row_s[rows] = statistics.mean(l["row_us"] for l in lines) * 1e-6
        result.width = lines[0]["width"]
    return result


@dataclasses.dataclass
class Bound:
    first_s: float  # to the first token
    token_s: float  # each one after it, of one sequence
    off_s: float  # to the first token where nothing overlaps: the sum
    pipes_s: dict  # to the first token through a pipe of even chunks that such stages and links make, by the chunks' length
    stage_s: float  # the slowest stage's time for the prompt
    wire_s: float  # a hop's
    cause: str  # what the bound is made of: the stage or the hop that is busy longest

    @property
    def pipe_s(self):
        """Of the best of them. (Of medians: the best of single samples is more often than not one that came out too short.)"""
        return min(self.pipes_s.values())


def pipes(stages, rows, wire_s, delays_s):
    """Every stage and every hop works on one chunk at a time. So the one that is busiest works all the time but while the first chunk comes to it and
    the last one goes on from it: what the bound leaves out. And small chunks cost more than large ones."""

    def pipe_s(chunk):
        count = -(-rows // chunk)
        each_s = [s.chunks_s[rows][chunk] / count for s in stages] + [wire_s / count] * (len(stages) - 1)
        return delays_s + sum(each_s) + (count - 1) * max(each_s)

    return {chunk: pipe_s(chunk) for chunk in stages[0].chunks_s[rows]}


def chain_bound(stages, rows, rate_mbit, round_trip_ms, wire):
    """`stages`: StageTimes in the order of the chain. Every hop between two sites is alike; the last worker's way to the gateway is one too, with
    nothing but tokens on it, and the gateway's to the first worker does not leave the site."""
    hops = len(stages) - 1
    wire_row_s = row_bytes(stages[0].width, wire) * 8e-6 / (rate_mbit * PAYLOAD_SHARE)
    stage_s = [s.prompt_s(rows) for s in stages]
    wire_s = rows * wire_row_s if hops else 0.0
    delays_s = len(stages) * round_trip_ms / 2000 if hops else 0.0
    slowest = max(stage_s)
    cause = "wire" if wire_s > slowest else f"stage {stage_s.index(slowest) + 1}"
    return Bound(
        first_s=max(slowest, wire_s) + delays_s,
        token_s=sum(s.row_s[rows] for s in stages) + delays_s + hops * wire_row_s,
        off_s=sum(stage_s) + hops * wire_s + delays_s,
        pipes_s=pipes(stages, rows, wire_s, delays_s),
        stage_s=slowest,
        wire_s=wire_s,
        cause=cause,
    )


def median_bound(bounds):
    """Of bounds that were measured in several rounds: the median of each time, and the cause that was most often one."""

    def middle(values):
        if isinstance(values[0], dict):
            return {key: statistics.median(v[key] for v in values) for key in values[0]}
        return statistics.mode(values) if isinstance(values[0], str) else statistics.median(values)

    return Bound(**{field.name: middle([getattr(b, field.name) for b in bounds]) for field in dataclasses.fields(Bound)})
