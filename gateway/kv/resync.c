/* How far each block table goes on, and the list of them. */
#include "gateway/kv/resync.h"

#include "common/base/arithmetic.h"

#include <assert.h>

bool lh_resync_resume(lh_block_table *table, uint32_t block_positions, uint32_t length) {
    uint32_t blocks = table->block_count;
    assert(table->is_live && table->is_sent && table->inflight_steps == 0);
    while (blocks > 0 && table->blocks[blocks - 1]->holders == 1)
        blocks--;
    uint32_t positions = lh_max_u32(blocks * block_positions, table->written);
    if (positions >= length)
        return false;
    table->written = table->standing = positions;
    return true;
}

bool lh_resync_restart(lh_block_table *table) {
    bool is_alone = true;
    assert(table->is_live && table->is_sent && table->inflight_steps == 0);
    for (uint32_t i = 0; i < table->block_count; i++)
        is_alone &= table->blocks[i]->holders == 1;
    table->standing = table->written;
    table->written = 0;
    return is_alone;
}

uint32_t lh_resync_list_live(const struct lh_block_tables *tables, lh_step_truncation *list,
                             uint32_t max) {
    const lh_block_table *table;
    uint32_t count = 0;
    LIST_FOREACH(table, tables, all) {
        if (!table->is_live)
            continue;
        assert(count < max && table->standing > 0);
        list[count++] = (lh_step_truncation){.sequence = table->number, .length = table->standing};
    }
    return count;
}

uint32_t lh_resync_list_cached(const struct lh_block_table_queue *cached, uint32_t block_positions,
                               lh_step_truncation *list, uint32_t max) {
    const lh_block_table *table;
    uint32_t count = 0;
    TAILQ_FOREACH_REVERSE(table, cached, lh_block_table_queue, cached) {
        assert(count < max && table->truncation_state == LH_KV_STAYS);
        list[count++] = (lh_step_truncation){.sequence = table->number,
                                             .length = table->block_count * block_positions};
    }
    return count;
}
