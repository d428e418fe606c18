"""How many tokens a second a chain can give to some streams at most, made of stage times that were measured alone and of the links' own figures."""

import dataclasses
import json
import os
import subprocess

import bound as bench_bound
import sites as bench_sites

BATCHES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class StageSteps:
    """What a decode step of some sequences takes on one stage."""

    def __init__(self, points, width):
        self.points, self.width = points, width  # {sequences: seconds}

    def seconds(self, rows):
        """Between the points along a line; a larger step takes at least as long as a smaller one."""
        below, above = max(b for b in self.points if b <= rows), min((b for b in self.points if b >= rows), default=None)
        if above is None:
            return self.points[below] * rows / below
        if above == below:
            return self.points[below]
        part = (rows - below) / (above - below)
        return self.points[below] * (1 - part) + self.points[above] * part


def measure_stage(build, model, first, last, layers, most, position, slowdown, core):
    """A stage by itself on a core of its own, at the worker's slowdown, with `position` tokens before each row; between two steps the other stages'
    share of the model is read, since they share this machine's caches, as sites would not."""
    others = os.path.getsize(model) * (layers - (last - first)) // layers
    done = subprocess.run(
        bench_sites.first(["taskset", "-c", core, build / "tests" / "stage_times", "--model", model, "--first", first, "--last", last, "--rows", position,
                           "--chunks", 64, "--batch", ",".join(str(b) for b in BATCHES if b <= most), "--slowdown", slowdown, "--others-bytes", others]),
        capture_output=True, text=True, check=True, start_new_session=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    points, least = {}, 0.0
    for line in reversed(lines):
        least = min(least or line["step_us"] * 1e-6, line["step_us"] * 1e-6)
        points[line["batch"]] = least
    return StageSteps(points, lines[0]["width"])


@dataclasses.dataclass
class Bound:
    stage: float  # tokens per second of the slowest stage, with all sequences in one step
    link: float  # of a hop between two stages: its rate over a token's bytes; infinite where there is none
    ring: float  # of one group for each token around the ring: all of them in one step
    best: float  # whatever number of groups: no more than stages, links and the ring let through
    groups: int  # with which that is


def chain_bound(stages, streams, rate_mbit, round_trip_ms, wire):
    """Every hop between two sites is alike; the last worker's way to the gateway is one too, with nothing but tokens on it, and the gateway's to the
    first worker does not leave the site."""
    hops = len(stages) - 1
    row_s = bench_bound.row_bytes(stages[0].width, wire) * 8e-6 / (rate_mbit * bench_bound.PAYLOAD_SHARE)
    delays_s = len(stages) * round_trip_ms / 2000 if hops else 0.0

    def ring_s(rows):
        return sum(s.seconds(rows) for s in stages) + delays_s + hops * row_s * rows

    def busiest_s(rows):
        return max([s.seconds(rows) for s in stages] + [row_s * rows] * (hops > 0))

    def period_s(groups):
        rows, more = divmod(streams, groups)
        busy = (groups - more) * busiest_s(rows) + (more * busiest_s(rows + 1) if more else 0)
        return max(ring_s(rows + (more > 0)), busy)

    groups = min(range(1, streams + 1), key=period_s)
    return Bound(stage=streams / max(s.seconds(streams) for s in stages), link=1 / row_s if hops else float("inf"), ring=streams / ring_s(streams),
                 best=streams / period_s(groups), groups=groups)
