/* Opens the fleet that the gateway keeps itself, with a CA of its own. Thread:
 * start-up only. */
#pragma once

#include "gateway/cli/settings.h"
#include "gateway/membership/membership.h"

/* Founds it where it is not there yet, writes the files of its TLS, and has
 * *settings name them. The membership outlives what is made of the settings.
 * Statuses of lh_membership_open and lh_upkeep_refresh. */
lh_status lh_own_fleet_open(lh_gateway_settings *settings, lh_membership **membership,
                            lh_error *error);
/* Keeps for `longhaul-gateway token` where workers reach it: the host of
 * --fleet-listen, and the port that it has. */
lh_status lh_own_fleet_note_port(const lh_gateway_settings *settings, lh_membership *membership,
                                 int port, lh_error *error);
/* Its state folder is written to while the gateway runs. */
void lh_own_fleet_allow(const lh_gateway_settings *settings, lh_sandbox_rules *rules);
