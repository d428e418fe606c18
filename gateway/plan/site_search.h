/* Orders of sites, for many machines: a finder of short rings within a limit, which takes a site's
 * machines together.
 *
 * Layers are taken to be of one size here, their mean. Then how the layers are dealt and which way
 * the ring goes are two questions:
 *
 *   fill[set][n]   the least that n layers cost on the machines of a set of sites: of each site's
 *                  own (site_fill.h), put together site by site
 *   way[set]       the shortest way from one site of the set to another through all the rest,
 *                  2^S S^2 transitions
 *
 * and the ring is the least sum over all sets. Embedding and head, which weigh on the first and the
 * last site alone, are dealt with apart. With more than LH_SITE_SEARCH_EXACT sites sets are not all
 * looked at: a beam of sets grows site by site, each with its way put together by insertion and
 * 2-opt. Machines that are pinned are left out, and so are their layers. Thread: one at a time. */
#pragma once

#include "gateway/plan/part_costs.h"

#define LH_SITE_SEARCH_EXACT 8u

typedef struct lh_site_search lh_site_search;

/* LH_ERR_NO_MEMORY. */
lh_status lh_site_search_create(const lh_parts *parts, lh_site_search **search, lh_error *error);
void lh_site_search_destroy(lh_site_search *search);
/* From now on only machines of this site, or of all: LH_PART_GATEWAY. */
void lh_site_search_limit(lh_site_search *search, uint32_t site);
/* For lh_limit_search (limit_search.h): context is the search. The layout's machines and their
 * order are what counts: its layers are counted in free ones of the mean size. */
bool lh_site_search_find(void *context, double busiest_max_us, lh_part_ring *ring);
