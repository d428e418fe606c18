"""The operator changes the CA while strangers try to join, a revoked member comes back, and a copy of a worker's key renews."""

from bystanders import harm_of
from joined_fleet import JoinedFleet
from joining import Machine
from membership_attacks import Crowd, StolenKey, come_back_though_revoked, join_with_wrong_secrets

WHAT = "strangers, a revoked member and a copied key crowd the fleet port while the CA is changed"


def attack():
    def rotate_in_a_crowd(is_over):
        with Crowd(is_over, lambda over: stolen.renew_again_and_again(fleet.fleet_port, over),
                   lambda over: join_with_wrong_secrets(fleet.fleet_port, over), lambda over: come_back_though_revoked(revoked, fleet.fleet_port, over)):
            fleet.own.run("rotate-ca")
            is_over.wait()

    with JoinedFleet(workers=1) as fleet:
        revoked, stolen = Machine(fleet.folder, "revoked"), StolenKey(fleet.state_folder("worker-1"))
        assert revoked.join(fleet.fleet_port, fleet.own.token()) == (200, None)
        fleet.own.run("revoke", "worker", "revoked")
        quiet = harm_of(fleet, 4)
        attacked = harm_of(fleet, 14, rotate_in_a_crowd)
        return quiet, attacked
