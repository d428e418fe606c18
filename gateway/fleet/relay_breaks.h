/* How often chains break that go through relays. A relay may change, drop or delay what it passes
 * on: what is changed the worker behind finds out by checksums, and what is late is overdue, so the
 * chain breaks, forms again, and breaks again. Whose fault it is nobody can tell. But where it
 * happens again and again, the chain is to try another relay, or to do without the worker behind.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

/* All zero: none has broken. */
typedef struct lh_relay_breaks {
    uint32_t count; /* in a row, each soon after the one before */
    int64_t last_us;
} lh_relay_breaks;

/* This chain has broken: with the third time in a row all its relays are passed over for a while,
 * where it has some. `relays` may be NULL. */
void lh_relay_breaks_note(lh_relay_breaks *breaks, const lh_chain *chain, lh_relays *relays,
                          int64_t now_us);
