/* Reports of made-up workers, for tests of the fleet and of its parts. */
#pragma once

#include "gateway/fleet/fleet.h"

#define MS 1000 /* microseconds */

/* Four layers of 100 bytes, 576 columns. */
extern const lh_model_profile four_layers;
/* A fleet of that model at "home": plans 1.5 s after the last change, asks for a report every 0.5
 * s, leases of 3 s, 1 s of probation, epochs from 1000 on. */
lh_fleet_options fleet_of_four_layers(uint32_t workers_expected);

/* Instance 1, one thread, 1000 bytes, at "home", reached at "NAME:1". */
lh_worker_report report_of(const char *name);
/* It holds its stage under this epoch, and is connected to the next one. */
void make_ready(lh_worker_report *report, uint32_t epoch);
/* What is said of this hop of a chain, by the stage to which it leads. */
lh_hop_trial_report trial_of_hop(const lh_chain *chain, uint32_t hop, lh_hop_trial_state state);
/* Puts the report and gives the answer; the fleet must take it. */
lh_fleet_answer put_report(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us);
/* Into a registry whose leases end after 3 s. */
void register_report(lh_registry *registry, const lh_worker_report *report, int64_t now_us);
