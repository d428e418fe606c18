"""One cell of the table: all ways of cutting a prompt, compared in the same minutes on the same warm fleet."""

import dataclasses
import math
import random
import statistics
import time

import bound as bench_bound

DECODE_TOKENS = 12
# How often the rounds are drawn anew for an interval, and from how many of them.
DRAWS = 300
ROUNDS_MIN = 3


@dataclasses.dataclass(frozen=True)
class Where:
    stages: int
    rate: float  # Mbit/s
    round_trip: float  # ms
    rows: int

    def __str__(self):
        return f"{self.stages} stages, {self.rate:g} Mbit/s, {self.round_trip:g} ms, prompt {self.rows}"


@dataclasses.dataclass
class Cell:
    where: Where
    bounds: list  # of the rounds, each made of the stages' times alone in that round
    first_s: dict  # by what was asked for ("off", "auto", "rows=64,columns=4"): a sample for each round
    token_s: dict
    sweep_s: dict  # one sample each
    distances: list  # auto's samples beside the bound that the stages' and links' times in the same request make (docs/API.md)
    best: dict  # of the sweep: "rows", "columns", "any"
    plan: dict  # what the cost model says of such a prompt, from GET /fleet, after the samples
    estimates_followed: bool
    slowdowns: list

    def first(self, name):
        """The median sample, as the bound is the median of the rounds'; `name` may be one of `best`."""
        return median(self.first_s.get(self.best.get(name, name), []))

    def token(self, name):
        return median(self.token_s.get(name, []))

    @property
    def bound(self):
        return bench_bound.median_bound(self.bounds)

    @property
    def room(self):
        """What there is to win: T_off / T_bound."""
        return self.first("off") / self.bound.first_s

    @property
    def efficiency(self):
        """E: the part of it that auto wins."""
        return self._part(self.first("auto"))

    @property
    def pipe_efficiency(self):
        """The part of it that the best pipe of even chunks would win: what is missing there is no program's to win."""
        return self._part(self.bound.pipe_s)

    def _part(self, seconds):
        gain = self.first("off") - self.bound.first_s
        return (self.first("off") - seconds) / gain if gain > 0 else math.nan

    @property
    def distance(self):
        return median(self.distances)

    @property
    def auto_over_manual(self):
        return self.first("auto") / self.best_manual

    def interval(self, figure):
        """What figure(cell) might as well have been: from the 5th to the 95th of a hundred, over rounds drawn anew from those that there were (the
        bootstrap: B. Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979). NaN where there are too few."""
        count = len(self.bounds)
        if count < ROUNDS_MIN:
            return math.nan, math.nan
        dice = random.Random(1)
        values = sorted(figure(self._of_rounds(dice.choices(range(count), k=count))) for _ in range(DRAWS))
        return values[DRAWS * 5 // 100], values[DRAWS * 95 // 100]

    def _of_rounds(self, rounds):
        """As if it had been those."""
        first_s = {name: [samples[i] for i in rounds] for name, samples in self.first_s.items()}
        return dataclasses.replace(self, bounds=[self.bounds[i] for i in rounds], first_s=first_s)

    @property
    def best_manual(self):
        return min((v for v in (self.first(n) for n in self.best) if not math.isnan(v)), default=math.nan)


def median(samples):
    """Of those that are known."""
    known = [s for s in samples if not math.isnan(s)]
    return statistics.median(known) if known else math.nan


def candidates(rows, thorough):
    """What a person would try: (settings with row shards, settings with column shards alone)."""
    lengths = [n for n in ((16, 32, 64, 128, 256) if thorough else (32, 64)) if n < rows]
    cut_rows = [f"rows={n}" + (f",columns={k}" if k > 1 else "") for n in lengths for k in (1, 4)]
    whole = [f"rows={rows},columns={k}" for k in ((2, 4, 8) if thorough else (4,))]
    return cut_rows, whole


def sweep(fleet, rows, thorough, deadline):
    """A sample of each candidate, as far as time goes; the best of each kind."""
    cut_rows, whole = candidates(rows, thorough)
    seen = {}
    for spec in sorted(cut_rows + whole, key=lambda s: ("columns=4" not in s, s)):
        if seen and time.monotonic() > deadline:
            break
        seen[spec] = fleet.ask(fleet.prompt(rows), overlap=spec).first_s
    kinds = {"rows": [s for s in seen if "columns" not in s], "columns": [s for s in seen if s in whole], "any": list(seen)}
    return seen, {kind: min(specs, key=seen.get) for kind, specs in kinds.items() if specs}


def measure(fleet, where, samples, seconds, thorough, followed, measure_bound):
    """Samples are taken in rounds over all settings and over the stages by themselves, so that a machine that drifts drifts for all of them.
    measure_bound() times the stages now and gives the chain's bound."""
    begin = time.monotonic()
    fleet.ask(fleet.prompt(where.rows), overlap="auto")
    seen, best = sweep(fleet, where.rows, thorough, begin + seconds / 2)
    cell = Cell(where, [], {}, {}, seen, [], best, {}, followed, fleet.slowdowns)
    names = list(dict.fromkeys(["off", "auto", *best.values()]))
    for number in range(samples):
        if number and time.monotonic() - begin > seconds:
            break
        cell.bounds.append(measure_bound())
        for name in fleet.random.sample(names, len(names)):  # none always after the same other one
            answer = fleet.ask(fleet.prompt(where.rows), DECODE_TOKENS if name in ("off", "auto") else 1, overlap=name)
            cell.first_s.setdefault(name, []).append(answer.first_s)
            cell.token_s.setdefault(name, []).append(answer.token_s)
            if name == "auto":
                cell.distances.append((answer.timing.get("timing") or {}).get("distance") or math.nan)
    cell.plan = fleet.plan(where.rows)
    return cell


# ---- The table

HEAD = (
    "stages  Mbit/s  rtt  prompt |    off    rows columns    auto  manual   bound    pipe | off/bound     E (90 % interval)  pipe's E  distance  auto/manual (90 %) | rounds |"
    "  token off    auto   bound | the bound is | best by hand, auto"
)


def words_of(cell, figure):
    """A figure and its interval."""
    low, high = cell.interval(figure)
    return f"{figure(cell):.2f}" + ("" if math.isnan(low) else f" ({low:.2f} to {high:.2f})")


def row(cell):
    w, b = cell.where, cell.bound
    efficiency, ratio = words_of(cell, lambda c: c.efficiency), words_of(cell, lambda c: c.auto_over_manual)
    return (
        f"{w.stages:6} {w.rate:7g} {w.round_trip:4g} {w.rows:7} |"
        f"{cell.first('off'):7.3f} {cell.first('rows'):7.3f} {cell.first('columns'):7.3f} {cell.first('auto'):7.3f} {cell.best_manual:7.3f} {b.first_s:7.3f} {b.pipe_s:7.3f} |"
        f"{cell.room:10.2f} {efficiency:>19} {cell.pipe_efficiency:9.2f} {cell.distance:9.3f} {ratio:>19} | {len(cell.bounds):6} |"
        f"{cell.token('off') * 1000:8.1f}ms {cell.token('auto') * 1000:5.1f}ms {b.token_s * 1000:5.1f}ms | {b.cause:12} | {cell.best.get('any', '')}, {cell.plan.get('plan', '')}"
        + ("" if cell.estimates_followed else "  (the fleet's estimates had not followed)")
    )


def as_dict(cell):
    """Everything, for --json."""
    return {
        **dataclasses.asdict(cell),
        "bound": dataclasses.asdict(cell.bound),
        "figures": {"off_over_bound": cell.room, "efficiency": cell.efficiency, "efficiency_interval": cell.interval(lambda c: c.efficiency),
                    "pipe_efficiency": cell.pipe_efficiency, "distance": cell.distance, "auto_over_manual": cell.auto_over_manual,
                    "auto_over_manual_interval": cell.interval(lambda c: c.auto_over_manual), "token_auto_over_bound": cell.token("auto") / cell.bound.token_s},
    }


CSV_HEAD = "stages,rate_mbit,round_trip_ms,prompt,off_s,rows_s,columns_s,auto_s,manual_s,bound_s,pipe_s,off_over_bound,efficiency,distance,token_off_s,token_auto_s,token_bound_s"


def csv_row(cell):
    w, b = cell.where, cell.bound
    values = [w.stages, w.rate, w.round_trip, w.rows, *(cell.first(n) for n in ("off", "rows", "columns", "auto")), cell.best_manual, b.first_s, b.pipe_s, cell.room,
              cell.efficiency, cell.distance, cell.token("off"), cell.token("auto"), b.token_s]
    return ",".join(f"{v:.6g}" for v in values)


# ---- What was to be reached


def claims(cells):
    """(claim, whether it holds here, words) for each cell that it is about."""
    for cell in cells:
        w = cell.where
        if cell.room > 1.2:
            wanted = 0.9 if w.rows >= 512 else 0.8
            words = f"{w}: E {words_of(cell, lambda c: c.efficiency)}, the best pipe's {cell.pipe_efficiency:.2f}, distance {cell.distance:.3f}"
            yield f"E at least {wanted} for prompts of {'512 and more' if w.rows >= 512 else '128'}", cell.efficiency >= wanted, words
        if not math.isnan(cell.best_manual):
            words = f"{w}: {words_of(cell, lambda c: c.auto_over_manual)} of {cell.best.get('any')}"
            yield "auto within 5 % of the best by hand", cell.auto_over_manual <= 1.05, words
        ratio = cell.first("auto") / cell.first("off")
        yield "auto never slower than off by more than 2 %", ratio <= 1.02, f"{w}: {ratio:.3f}"
        if not math.isnan(cell.token("auto")):
            ratio = cell.token("auto") / cell.bound.token_s
            yield "decode within 10 % of the ring's bound", ratio <= 1.1, f"{w}: {ratio:.2f} ({cell.token('auto') * 1000:.1f} of {cell.bound.token_s * 1000:.1f} ms)"


def balanced_claims(cells):
    wanted = {2: 2.4, 3: 3.3}
    for cell in cells:
        if cell.where.stages in wanted:
            factor = cell.first("off") / cell.first("auto")
            yield (f"balanced: auto {wanted[cell.where.stages]} times faster than off with {cell.where.stages} stages", factor >= wanted[cell.where.stages],
                   f"{cell.where}: {factor:.2f} times; the bound is {cell.room:.2f} times, perfectly even stages would be {cell.where.stages * 2 - 1}")


def print_summary(all_claims):
    """For each claim in how many cells it holds, and where it does not. True: it holds everywhere."""
    by_claim = {}
    for claim, holds, words in all_claims:
        by_claim.setdefault(claim, []).append((holds, words))
    print("\nSummary")
    for claim, results in by_claim.items():
        good = sum(holds for holds, _ in results)
        print(f"  {'holds' if good == len(results) else 'MISSED'}: {claim}: {good} of {len(results)} cells")
        for holds, words in results:
            if not holds:
                print(f"      {words}")
    return all(holds for results in by_claim.values() for holds, _ in results)
