/* Sets of sites where there are too many to look at all: a beam of the best few grows by one site
 * at a time, each with its way, into which the new site is inserted where it costs least and which
 * is then mended by 2-opt. Not exact: ring_bound.h says how far it can be off.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/plan/site_fill.h"

typedef struct lh_site_beam lh_site_beam;

/* LH_ERR_NO_MEMORY. */
lh_status lh_site_beam_create(const lh_parts *parts, uint32_t layers, lh_site_beam **beam,
                              lh_error *error);
void lh_site_beam_destroy(lh_site_beam *beam);
/* Sets a layout like that of lh_site_search_find from the sites' fills, which are computed for the
 * limit. False: nothing was found. */
bool lh_site_beam_find(lh_site_beam *beam, const lh_site_fill *const *fills, uint32_t count,
                       double limit_us, lh_layout *layout);
