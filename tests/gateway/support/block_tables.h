/* Block tables without a store, for the tests of its parts. All are gone with block_tables_end. */
#pragma once

#include "gateway/kv/block_table.h"

extern lh_block_pool block_tables_pool;

/* Blocks of 16 positions. */
void block_tables_start(uint64_t blocks);
void block_tables_end(void);
/* Live, with so many blocks. */
lh_block_table *block_table_grown(uint32_t blocks);
/* Ended, with so many of its own. */
lh_block_table *block_table_ended(uint32_t blocks);
/* Live, sent, and begun with blocks of the source; `more` of its own. */
lh_block_table *block_table_forked(lh_block_table *source, uint32_t blocks, uint32_t more);
