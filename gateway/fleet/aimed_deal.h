/* Dealing the first workers to several chains (replica_deal.h) for the aim, before any of them
 * serves: by what machines said of themselves and what is known of links (live_map.h), as plans are
 * made that are wanted at once. Pure; thread: any. */
#pragma once

#include "gateway/fleet/fleet_options.h"
#include "gateway/fleet/replica_deal.h"

/* As lh_replica_deal, which it asks where it finds no deal itself. Takes less than 0.2 s for
 * LH_WORKERS_MAX workers and up to 4 chains. */
uint32_t lh_aimed_deal(const lh_fleet_options *options, const lh_replica_table *table,
                       uint32_t *replica_of);
