/* A small set of hashes, each looked for in a few places behind its own. */
#include "gateway/openai/left_out_log.h"

#define PLACES 8u

/* FNV-1a over the name, begun with the client. Two that agree by chance cost a line of the log. */
static uint64_t mark_of(uint64_t client, const char *kind) {
    uint64_t mark = 14695981039346656037u ^ (client * 0x9e3779b97f4a7c15u);
    for (; *kind; kind++)
        mark = (mark ^ (unsigned char)*kind) * 1099511628211u;
    mark ^= mark >> 32;
    return mark ? mark : 1;
}

/* Where the mark is, or belongs: the first free place, else the one that it hashes to. */
static _Atomic(uint64_t) *place_of(lh_left_out_log *log, uint64_t mark) {
    for (uint64_t i = 0; i < PLACES; i++) {
        _Atomic(uint64_t) *place = &log->marks[(mark + i) % LH_LEFT_OUT_LOG_MARKS];
        uint64_t held = atomic_load_explicit(place, memory_order_relaxed);
        if (held == mark || held == 0)
            return place;
    }
    return &log->marks[mark % LH_LEFT_OUT_LOG_MARKS];
}

bool lh_left_out_log_take(lh_left_out_log *log, uint64_t client, const char *kind,
                          lh_log_limit *limit, int64_t now_us, unsigned long long *more) {
    uint64_t mark = mark_of(client, kind);
    _Atomic(uint64_t) *place = place_of(log, mark);
    if (atomic_load_explicit(place, memory_order_relaxed) == mark ||
        !lh_log_limit_take(limit, now_us, more))
        return false;
    return atomic_exchange_explicit(place, mark, memory_order_relaxed) != mark;
}
