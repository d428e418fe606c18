/* A list, which is walked where memory is short. */
#include "gateway/http/body_memory.h"

#include <assert.h>

/* Bodies up to here may use all of the memory; larger ones leave this part of it. */
#define SMALL_BYTES   (64u << 10)
#define RESERVED_PART 8u
/* A body that needs longer for so many bytes stands still. One that comes at that rate is cut by
 * its deadline anyway, unless it is small. */
#define MOVE_BYTES (16u << 10)
/* Packets that are lost are sent again within a second, as long as a network is well. */
#define STILL_US      1000000
#define LONG_STILL_US 5000000

lh_status lh_body_memory_init(lh_body_memory *memory, uint64_t bytes_max, uint32_t bodies_max,
                              lh_error *error) {
    *memory = (lh_body_memory){.bytes_max = bytes_max};
    TAILQ_INIT(&memory->shares);
    return lh_holdings_init(&memory->owners, bodies_max, error);
}

void lh_body_memory_reset(lh_body_memory *memory) {
    assert(memory->bytes == 0);
    lh_holdings_reset(&memory->owners);
}

void lh_body_share_note(lh_body_share *share, uint64_t bytes, int64_t now_us) {
    if (bytes - share->moved_bytes < MOVE_BYTES)
        return;
    share->moved_bytes = bytes;
    share->moved_us = now_us;
}

bool lh_body_memory_take(lh_body_memory *memory, lh_body_share *share, uint64_t bytes,
                         int64_t now_us) {
    assert(!share->is_ended);
    bool is_small = share->bytes + bytes <= SMALL_BYTES;
    uint64_t most = memory->bytes_max - (is_small ? 0 : memory->bytes_max / RESERVED_PART);
    if (memory->bytes + bytes > most)
        return false;
    if (!share->bytes) {
        TAILQ_INSERT_TAIL(&memory->shares, share, links);
        share->moved_us = now_us;
    }
    share->bytes += bytes;
    memory->bytes += bytes;
    lh_holdings_add(&memory->owners, share->owner, bytes);
    return true;
}

void lh_body_memory_give(lh_body_memory *memory, lh_body_share *share, uint64_t bytes) {
    assert(bytes <= share->bytes && memory->bytes >= share->bytes);
    if (!bytes)
        return;
    share->bytes -= bytes;
    memory->bytes -= bytes;
    lh_holdings_take(&memory->owners, share->owner, bytes);
    if (!share->bytes)
        TAILQ_REMOVE(&memory->shares, share, links);
}

/* ---- Who is ended ---- */

typedef struct rank {
    bool stands_still;
    int64_t still_us;
    uint64_t owned;
} rank;

static bool goes_before(const rank *one, const rank *other) {
    if (one->stands_still != other->stands_still)
        return one->stands_still;
    if (!one->stands_still && one->owned != other->owned)
        return one->owned > other->owned;
    return one->still_us > other->still_us;
}

lh_body_share *lh_body_memory_pick(const lh_body_memory *memory, const lh_body_share *share,
                                   uint64_t bytes, int64_t now_us) {
    uint64_t would_own = lh_holdings_of(&memory->owners, share->owner) + bytes;
    lh_body_share *at, *first = NULL;
    rank first_rank = {0};
    TAILQ_FOREACH(at, &memory->shares, links) {
        int64_t still_us = now_us - at->moved_us;
        rank own = {still_us >= STILL_US, still_us, lh_holdings_of(&memory->owners, at->owner)};
        bool may_go = own.owned > would_own || still_us >= LONG_STILL_US ||
                      (own.stands_still && at->owner == share->owner);
        if (at == share || at->is_whole || !may_go || (first && !goes_before(&own, &first_rank)))
            continue;
        first = at;
        first_rank = own;
    }
    return first;
}

void lh_body_memory_end(lh_body_memory *memory, lh_body_share *share) {
    lh_body_memory_release(memory, share);
    share->is_ended = true;
}

void lh_body_memory_release(lh_body_memory *memory, lh_body_share *share) {
    lh_body_memory_give(memory, share, share->bytes);
    *share = (lh_body_share){0};
}
