/* KV resync: what goes on when a chain has broken and its workers keep their caches.
 *
 * What a block table has `written` has been around the ring: it is on every worker, and nothing
 * takes it away. Beyond that a worker may have some positions and another one none. So the gateway
 * lists what goes on, with the positions that count, and every worker cuts its caches back to the
 * list before anything is computed: then both sides agree again. A block that a second table shares
 * has been written, too, or that table would have nothing surely written.
 *
 * Where the first stages are new and only the last ones have kept their caches, a table's positions
 * stand there, and are written anew on the first ones. What is shared or cached would have to be
 * told apart there, so it goes.
 *
 * Thread: one at a time; no truncation is to be sent or on its way. */
#pragma once

#include "gateway/kv/block_table.h"

/* A live table goes on from what is surely written, less than `length` positions. False: what
 * others share of it reaches as far as `length`: its last token would be written into their block.
 */
bool lh_resync_resume(lh_block_table *table, uint32_t block_positions, uint32_t length);
/* A live table stands with its positions at the last stages; none is written on the whole chain.
 * False: it shares blocks, so it cannot go on. */
bool lh_resync_restart(lh_block_table *table);
/* The list: live tables, which have been resumed or restarted, and after them the cached ones, most
 * recently used first. There is room for `max`, and no more of them. Each returns how many. */
uint32_t lh_resync_list_live(const struct lh_block_tables *tables, lh_step_truncation *list,
                             uint32_t max);
uint32_t lh_resync_list_cached(const struct lh_block_table_queue *cached, uint32_t block_positions,
                               lh_step_truncation *list, uint32_t max);
