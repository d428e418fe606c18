/* Whether somebody takes connections at an address: each of its IP addresses is tried in turn, and
 * nothing is sent. Thread: any; it blocks. */
#pragma once

#include "common/net/address.h"

/* *reached: the one that answered, "192.0.2.1:7100". LH_ERR_NOT_FOUND: the name is not known;
 * LH_ERR_UNAVAILABLE, LH_ERR_TIMEOUT: nobody answers at the last one that was tried, which the
 * message names. timeout_ms: for each of them. */
lh_status lh_reach_try(const lh_address *address, int timeout_ms,
                       char reached[LH_ADDRESS_TEXT_BYTES], lh_error *error);
