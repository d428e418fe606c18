/* What the gateway knows of a chain, as the cost model wants it: the workers' reports of their
 * stages and hops, the gateway's own measurement of the first hop, and the bytes that steps have on
 * the wire. Thread: one at a time. */
#pragma once

#include "gateway/cost/cost_model.h"
#include "gateway/fleet/fleet.h"

/* What has not been measured, or is of another stage than the worker's present one, is left out:
 * lh_cost_chain_check says so. The stage count is always right. */
void lh_chain_costs_read(const lh_fleet *fleet, uint32_t width, const lh_hop_profile *first_hop,
                         lh_cost_chain *costs);
