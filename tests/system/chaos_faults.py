"""What can happen to a worker, and how it is undone. Each fault is drawn from a trial's dice alone, so that its seed brings it back."""

import math

from chaos_fleet import GATEWAY


def _duration(dice, least, most):
    """Seconds; short ones as likely as long ones."""
    return math.exp(dice.uniform(math.log(least), math.log(most)))


class Fault:
    """strike() does it, heal() undoes it, as often as it is called. `heals_after_s`: it heals by itself then, whether the streams have ended or not; None: when
    they have."""

    heals_after_s = None
    is_lasting = True  # until it is healed
    cuts_streams = False  # whoever holds their connections dies
    back_s = None  # the fleet must be whole so long after the healing; None: as always

    def __init__(self, fleet, worker, dice):
        self.fleet, self.worker = fleet, worker
        self.healed = False

    def describe(self):
        return f"worker-{self.worker}" + (f" for {self.heals_after_s:.2f} s" if self.heals_after_s else "")

    def heal(self):
        if not self.healed:
            self.healed = True
            self.undo()

    def undo(self):
        pass


class Kill(Fault):
    def strike(self):
        self.fleet.kill(self.worker)

    def undo(self):
        self.fleet.start_worker(self.worker)


class KillAndRestart(Kill):
    """As under a supervisor."""

    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        self.heals_after_s = _duration(dice, 0.1, 2)


class Freeze(Fault):
    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        self.heals_after_s = _duration(dice, 0.1, 12)

    def strike(self):
        self.fleet.freeze(self.worker, True)

    def undo(self):
        self.fleet.freeze(self.worker, False)


class Cut(Fault):
    """Of lines, each (from, to)."""

    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        self.heals_after_s = _duration(dice, 0.1, 12)
        self.lines = self.choose_lines(dice)

    def strike(self):
        for line in self.lines:
            self.fleet.cut(*line, True)

    def undo(self):
        for line in self.lines:
            self.fleet.cut(*line, False)


class CutOff(Cut):
    def choose_lines(self, dice):
        return [(self.worker, "*"), ("*", self.worker)]


class CutOutgoing(Cut):
    def choose_lines(self, dice):
        return [(self.worker, "*")]


class CutIncoming(Cut):
    def choose_lines(self, dice):
        return [("*", self.worker)]


class CutHop(Cut):
    """Between two neighbours of the chain, both of which still reach everybody else."""

    def choose_lines(self, dice):
        chain = self.fleet.chain_workers()
        at = chain.index(self.worker) if self.worker in chain else 0
        next_site = chain[at + 1] if at + 1 < len(chain) else GATEWAY
        self.ways = [(self.worker, next_site), (next_site, self.worker)]
        return self.ways

    def describe(self):
        return f"{self.lines} for {self.heals_after_s:.2f} s"


class CutHopOneWay(CutHop):
    def choose_lines(self, dice):
        return [super().choose_lines(dice)[dice.randrange(2)]]


class Flip(Fault):
    """One bit, on a line from or to the worker."""

    is_lasting = False

    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        others = [site for site in range(fleet.worker_count + 1) if site != worker]
        chain = fleet.chain_workers()
        if worker in chain and dice.random() < 0.7:  # where the work goes: the hop after it
            at = chain.index(worker)
            others = [chain[at + 1] if at + 1 < len(chain) else GATEWAY]
        ends = [worker, dice.choice(others)]
        if dice.random() < 0.3:
            ends.reverse()
        self.ends, self.dice = ends, dice.randrange(1, 1 << 40)

    def describe(self):
        return f"bit {self.dice} from {self.ends[0]} to {self.ends[1]}"

    def strike(self):
        self.fleet.sites.flip(*self.ends, self.dice)

    def undo(self):
        """Where nothing has gone that way, nothing was flipped; and later it would be another trial's."""
        self.fleet.sites.flip(*self.ends, 0)


class KillAndFlip(Kill):
    """And the first thing that is said on a new connection is wrong: often HTTP/2's settings and windows, which have no checksum."""

    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        others = [site for site in range(fleet.worker_count + 1) if site != worker]
        dice.shuffle(others)
        self.lines = [(others[0], others[1]), (others[1], others[2 % len(others)])]
        self.dice = dice.randrange(1, 1 << 40)

    def strike(self):
        for line in self.lines:
            self.fleet.sites.flip(*line, self.dice)
        super().strike()

    def undo(self):
        for line in self.lines:
            self.fleet.sites.flip(*line, 0)
        super().undo()


class GatewayFault(Fault):
    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, GATEWAY, dice)
        self.heals_after_s = _duration(dice, 0.1, 6)

    def describe(self):
        return f"the gateway for {self.heals_after_s:.2f} s"


class KillGateway(GatewayFault):
    cuts_streams = True
    back_s = 3.0

    def __init__(self, fleet, worker, dice):
        super().__init__(fleet, worker, dice)
        self.heals_after_s = _duration(dice, 0.05, 3)

    def strike(self):
        self.fleet.kill(GATEWAY)

    def undo(self):
        self.fleet.start_gateway()


class FreezeGateway(GatewayFault):
    def strike(self):
        self.fleet.freeze(GATEWAY, True)

    def undo(self):
        self.fleet.freeze(GATEWAY, False)


FAULTS = {
    "kill": Kill,
    "restart": KillAndRestart,
    "freeze": Freeze,
    "cut-off": CutOff,
    "cut-out": CutOutgoing,
    "cut-in": CutIncoming,
    "cut-hop": CutHop,
    "cut-hop-one-way": CutHopOneWay,
    "flip": Flip,
    "kill-flip": KillAndFlip,
    "gateway": KillGateway,
    "gateway-freeze": FreezeGateway,
}
# How often each is drawn.
WEIGHTS = {"kill": 6, "restart": 2, "freeze": 4, "cut-off": 2, "cut-out": 2, "cut-in": 2, "cut-hop": 1, "cut-hop-one-way": 1, "flip": 6, "kill-flip": 1, "gateway": 1,
           "gateway-freeze": 1}
