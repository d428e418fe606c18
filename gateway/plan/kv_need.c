/* Pages, by division. */
#include "gateway/plan/kv_need.h"

#include <assert.h>
#include <math.h>

/* Parts are rounded to whole heads by weights that are rounded themselves: a border this close to
 * one between two heads is taken for it. */
#define HEAD_SLACK 0.01

uint32_t lh_kv_need_pages(uint32_t positions, uint32_t sequences) {
    uint64_t pages = ((uint64_t)positions + LH_KV_NEED_PAGE - 1) / LH_KV_NEED_PAGE +
                     (sequences > 0 ? sequences - 1 : 0);
    return pages < LH_KV_NEED_PAGES_MAX ? (uint32_t)pages : LH_KV_NEED_PAGES_MAX;
}

bool lh_kv_need_lower(lh_kv_need *need) {
    if (need->position_bytes == 0 || need->pages <= 1)
        return false;
    need->pages /= 2;
    assert(need->pages > 0);
    return true;
}

static uint64_t page_bytes(const lh_kv_need *need) {
    return need->position_bytes * LH_KV_NEED_PAGE;
}

uint64_t lh_kv_need_layer_bytes(const lh_kv_need *need) {
    return page_bytes(need) * (need->pages > 0 ? need->pages : 1);
}

static uint32_t bounded(uint64_t count) {
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

uint32_t lh_kv_need_layers_max(const lh_kv_need *need, uint64_t offered_bytes) {
    if (need->position_bytes == 0 || offered_bytes == 0)
        return UINT32_MAX;
    return bounded(offered_bytes / lh_kv_need_layer_bytes(need));
}

uint32_t lh_kv_need_room(const lh_kv_need *need, uint64_t offered_bytes, uint32_t layers) {
    if (need->position_bytes == 0 || offered_bytes == 0 || layers == 0)
        return UINT32_MAX;
    return bounded(offered_bytes / page_bytes(need) / layers);
}

/* Of all heads, those that a part from `begin` to `end` of them needs. */
static double heads_of(const lh_kv_need *need, double begin, double end) {
    return ceil(end * need->heads - HEAD_SLACK) - floor(begin * need->heads + HEAD_SLACK);
}

uint64_t lh_kv_need_together(const lh_kv_need *need, const uint64_t *offered, const double *parts,
                             uint32_t count) {
    double all = 0, begin = 0, least = INFINITY;
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert(parts[i] > 0);
        all += parts[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        double end = begin + parts[i] / all, bytes = (double)offered[i];
        if (need->heads > 0)
            bytes *= need->heads / fmax(heads_of(need, begin, end), 1);
        least = fmin(least, bytes);
        begin = end;
    }
    return (uint64_t)least;
}
