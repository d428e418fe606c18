/* The memory that bodies have while they come in, or go out: one for those of requests, one for
 * those of answers. It is bounded for all of them together; where it runs short, a body is ended.
 *
 * A body that grows is refused only where nobody else's is to be ended for it. It may be another
 * that has stood still for five seconds; one of the same owner that has stood still for one; or any
 * of an owner who holds more than this one would. Those that stand still go first, the longest of
 * them before the others, and then those of the owner who holds most. So one owner may have all of
 * the memory while he is alone, and nobody keeps it from others by standing still or by asking for
 * more. A part of the memory is for small bodies only. A body moves when a certain number of bytes
 * has come, or was taken by the client: with a byte now and then it stands still.
 *
 * Whose a body is, is said by a number: the client who has shown a key, else the address.
 *
 * Sans-I/O: who is to be ended is returned. Private to gateway/http/. Thread: one at a time. */
#pragma once

#include "gateway/http/holdings.h"

#include <stddef.h>
#include <sys/queue.h>

/* Of one body; a part of what its owner keeps of it. All zero: there is none. */
typedef struct lh_body_share {
    TAILQ_ENTRY(lh_body_share) links; /* while it has memory */
    uint64_t owner;                   /* set before it gets memory */
    uint64_t bytes;                   /* of memory */
    int64_t moved_us;                 /* when moved_bytes had come, or gone */
    uint64_t moved_bytes;
    bool is_whole; /* of a request, all of it has come: it is not ended */
    bool is_ended; /* it gets no more memory */
} lh_body_share;

typedef struct lh_body_memory {
    TAILQ_HEAD(lh_body_shares, lh_body_share) shares;
    lh_holdings owners;
    uint64_t bytes, bytes_max;
} lh_body_memory;

/* bytes_max: of all bodies. bodies_max: that have memory at a time. LH_ERR_NO_MEMORY. */
lh_status lh_body_memory_init(lh_body_memory *memory, uint64_t bytes_max, uint32_t bodies_max,
                              lh_error *error);
/* Nobody has memory any more. */
void lh_body_memory_reset(lh_body_memory *memory);

/* So many bytes of the body have come, or gone, by now. */
void lh_body_share_note(lh_body_share *share, uint64_t bytes, int64_t now_us);
/* So many bytes of memory more. False: there is no room for them. */
bool lh_body_memory_take(lh_body_memory *memory, lh_body_share *share, uint64_t bytes,
                         int64_t now_us);
/* So many bytes of its memory are free again. */
void lh_body_memory_give(lh_body_memory *memory, lh_body_share *share, uint64_t bytes);
/* Who is to be ended so that there is room for them; NULL: nobody. */
lh_body_share *lh_body_memory_pick(const lh_body_memory *memory, const lh_body_share *share,
                                   uint64_t bytes, int64_t now_us);
/* Its memory counts as free from now on; the caller frees it soon. */
void lh_body_memory_end(lh_body_memory *memory, lh_body_share *share);
/* Its memory is free, and the share as at the beginning. */
void lh_body_memory_release(lh_body_memory *memory, lh_body_share *share);
