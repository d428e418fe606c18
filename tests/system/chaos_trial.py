"""One trial: streams run, a fault strikes at a random token, and everything must come right again."""

import json
import random
import time

from chaos_faults import FAULTS, WEIGHTS, GatewayFault
from chaos_streams import Streams

HUNG_S = 60


class Result:
    def __init__(self, number, kind):
        self.number, self.kind = number, kind
        self.what = ""
        self.verdicts = {}  # of the streams, how many of each
        self.problems = []
        self.stall_s = 0.0  # the longest pause of a stream from the fault on
        self.down_s = None  # until the gateway had noticed; None: it had not while the streams ran
        self.back_s = None  # from the healing until the fleet was whole
        self.stages = None  # of the chain, when the fleet was whole
        self.second = False  # a second fault struck the same streams

    def line(self):
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        down = f"noticed {self.down_s:.2f}" if self.down_s is not None else "not noticed"
        back = f", whole {self.back_s:.2f} over {self.stages}" if self.back_s is not None else ""
        return f"{self.number:4} {self.kind:16} {self.what:44} {verdicts:18} stall {self.stall_s:5.2f}, {down}{back}"


class Limits:
    """Seconds. slowness: of the programs, beside a release build."""

    def __init__(self, slowness=1):
        self.slowness = slowness
        self.error = 5.0 if slowness == 1 else 5.0 * slowness
        self.back = 10.0 * slowness
        self.hung = HUNG_S * slowness


class Trial:
    def __init__(self, fleet, seed, number, expected, streams, tokens, kinds, limits, has_spare, double=False):
        self.fleet, self.expected, self.limits, self.has_spare, self.double = fleet, expected, limits, has_spare, double
        self.dice = random.Random(f"{seed}/{number}")
        self.stream_count, self.tokens = streams, tokens
        kind = self.dice.choices(kinds, [WEIGHTS[k] for k in kinds])[0]
        self.result = Result(number, kind)

    def run(self):
        result, dice = self.result, self.dice
        total = self.stream_count * self.tokens
        token, victim = dice.randrange(total * 8 // 10), dice.choice(self.fleet.chain_workers())
        self.fault = FAULTS[result.kind](self.fleet, victim, dice)
        result.what = f"{self.fault.describe()} at token {token}"
        streams = Streams(self.fleet, self.stream_count, self.tokens, self.expected).start()
        streams.wait_tokens(token, self.limits.hung)
        epoch = self._epoch()
        self.fault.strike()
        self.struck = time.monotonic()
        try:
            self._watch(streams, epoch)
        finally:
            self.fault.heal()
        self.healed = time.monotonic()
        self._judge(streams)
        self._wait_back()
        return result

    def _epoch(self):
        state = self.fleet.state()
        chains = state.get("chains") or [{}]
        return (state.get("state"), chains[0].get("epoch"))

    def _watch(self, streams, epoch):
        """Until the streams have ended; heals when it is time."""
        second_at = streams.token_count + self.dice.randrange(self.stream_count * self.tokens // 2) if self.double else None
        while not streams.is_over():
            now = time.monotonic()
            if now > self.struck + self.limits.hung:
                return
            if self.fault.heals_after_s is not None and now > self.struck + self.fault.heals_after_s:
                self.fault.heal()
            if self.result.down_s is None and self._epoch() != epoch:
                self.result.down_s = time.monotonic() - self.struck
            if second_at is not None and self.result.down_s is not None and streams.token_count > second_at and self._epoch()[0] == "ready":
                second_at = None
                self._strike_again()
            time.sleep(0.02)

    def _strike_again(self):
        """When the streams go on: what was struck is well again, and another worker is killed."""
        self.fault.heal()
        self.fleet.wait_whole(self.limits.back)
        others = [worker for worker in self.fleet.chain_workers() if worker != self.fault.worker]
        self.fault = FAULTS["kill"](self.fleet, self.dice.choice(others), self.dice)
        self.fault.strike()
        self.result.second = True
        self.result.what += f", then worker-{self.fault.worker} killed"

    def _judge(self, streams):
        result = self.result
        streams.join(time.monotonic() + 1)
        for number, outcome in enumerate(streams.outcomes):
            result.verdicts[outcome.verdict] = result.verdicts.get(outcome.verdict, 0) + 1
            pause, begin = outcome.longest_pause()
            if outcome.ended is not None and outcome.ended > self.struck and begin + pause > self.struck:
                result.stall_s = max(result.stall_s, pause)
            if not self._is_fair(outcome):
                took = f", {outcome.ended - self.struck:.2f} s after the fault" if outcome.ended else ""
                result.problems.append(f"stream {number}: {outcome.verdict}{took}: {outcome.detail}")

    def _is_fair(self, outcome):
        """As in an undisturbed run; or cut off with its gateway; or nothing could take over, and it was told so in time: after the last thing that
        it heard, or the fault."""
        if outcome.verdict == "same" or (self.fault.cuts_streams and outcome.verdict in ("cut", "error")):
            return True
        return outcome.verdict == "error" and not self.has_spare and outcome.ended - max(self.struck, *outcome.times) <= self.limits.error

    def _wait_back(self):
        try:
            self.fleet.wait_whole(self.fault.back_s * self.limits.slowness if self.fault.back_s else self.limits.back)
            self.result.back_s = time.monotonic() - self.healed
            self.result.stages = len(self.fleet.chain_workers())
        except (TimeoutError, AssertionError) as error:
            self.result.problems.append(str(error))


class TruthTrial(Trial):
    """Nothing can take over, and mostly nothing comes back: errors in time, and the gateway says what is so."""

    def _watch(self, streams, epoch):
        if self.dice.random() < 0.7 and not isinstance(self.fault, GatewayFault):
            self.fault.heals_after_s = None
        super()._watch(streams, epoch)
        if not self.fault.is_lasting or self.fault.healed or isinstance(self.fault, GatewayFault):
            return
        if "error" not in [outcome.verdict for outcome in streams.outcomes]:
            return
        ready, models = self.fleet.get("/readyz")[0], self.fleet.get("/v1/models")[1]
        if ready != 503:
            self.result.problems.append(f"/readyz says {ready} while no chain serves")
        if json.loads(models or "{}").get("data") != []:
            self.result.problems.append(f"/v1/models lists {models} while no chain serves")
        self._wait_no_ghost()

    def _wait_no_ghost(self):
        """A worker that nobody hears of is not shown for long."""
        if self.result.kind in ("cut-hop", "cut-hop-one-way", "cut-in"):
            return  # it is heard of
        name = self.fleet.name(self.fault.worker)
        while name in [worker["name"] for worker in self.fleet.state().get("workers", [])]:
            if time.monotonic() > self.struck + self.limits.back:
                self.result.problems.append(f"{name} is still shown {self.limits.back:g} s after it was lost")
                return
            time.sleep(0.05)
