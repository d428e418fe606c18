/* Emulated links between network namespaces, on TUN devices; the kernel's own TCP runs end to end.
 *
 * Each namespace (of /run/netns) gets a device "wan"; site i has the address 10.201.0.{i + 1},
 * which the caller sets. From each site to each other leads a line of its own, without bound until
 * it is set. Lines on stdin, each answered with a line of JSON:
 *
 *     set FROM TO rate=MBIT delay=MS jitter=MS loss=PERCENT queue=MS     what is not named stays
 *     stall FROM TO MS                                                   nothing leaves for so long
 *     flip FROM TO DICE                                                  a bit of the next TCP
 *     packet with a payload: number DICE, counted around; 0: none after all
 *     stats
 *
 * FROM and TO count from 0; "*" is all of them. */
#pragma once

#include "common/base/status.h"

#define LH_LINK_SITES_MAX 16u

/* Runs until stdin ends. The first line on stdout says whether it has real-time priority, which it
 * needs to be on time. Needs root. LH_ERR_IO: a namespace, or its device, cannot be had. Thread:
 * the only one. */
lh_status lh_link_sites(int count, char **namespaces, lh_error *error);
