/* A manifest is checked against the epoch. */
#include "worker/serve/chain_place.h"

#include <assert.h>

bool lh_chain_place_keeps_kv(const lh_chain_place *place, const lh_chain_route *route) {
    return place->kv_epoch != 0 && place->kv_epoch == route->kv_epoch;
}

void lh_chain_place_enter(lh_chain_place *place, const lh_chain_route *route, bool keeps_kv) {
    assert(!keeps_kv || lh_chain_place_keeps_kv(place, route));
    *place = (lh_chain_place){.is_set = true,
                              .route = *route,
                              .kv_epoch = keeps_kv ? place->kv_epoch : route->epoch,
                              .awaits_resync = keeps_kv};
}

void lh_chain_place_leave(lh_chain_place *place) {
    place->is_set = false;
    place->kv_epoch = 0;
}

static lh_status check_epoch(lh_chain_place *place, uint64_t number,
                             const lh_step_manifest *manifest, lh_error *error) {
    uint32_t epoch = place->route.epoch;
    if (manifest->step != number)
        return lh_fail(error, LH_ERR_MALFORMED, "the path names step %llu, the manifest step %llu",
                       (unsigned long long)number, (unsigned long long)manifest->step);
    if (manifest->epoch < epoch)
        return lh_fail(error, LH_ERR_STALE, "step %llu is of epoch %u; the chain is at %u",
                       (unsigned long long)number, manifest->epoch, epoch);
    if (manifest->epoch > epoch)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "step %llu is of epoch %u; this worker is still at %u",
                       (unsigned long long)number, manifest->epoch, epoch);
    if (!lh_step_window_reaches(&place->window, number))
        return lh_fail(error, LH_ERR_INVALID, "step %llu is far ahead of all that have come",
                       (unsigned long long)number);
    if (!lh_step_window_admit(&place->window, number))
        return lh_fail(error, LH_ERR_STALE, "step %llu has come before",
                       (unsigned long long)number);
    return LH_OK;
}

/* A cache that was kept goes on only from what the gateway knows of it; and what has begun is not
 * taken away again. */
static lh_status check_resync(lh_chain_place *place, const lh_step_manifest *manifest,
                              lh_error *error) {
    bool has_begun = place->has_begun;
    place->has_begun = true;
    if (manifest->resyncs && has_begun)
        return lh_fail(error, LH_ERR_INVALID,
                       "step %llu is a KV resync, but is not the first of its epoch",
                       (unsigned long long)manifest->step);
    if (!manifest->resyncs && place->awaits_resync)
        return lh_fail(
            error, LH_ERR_INVALID,
            "step %llu came without a KV resync before it: this worker has kept its KV cache",
            (unsigned long long)manifest->step);
    return LH_OK;
}

lh_status lh_chain_place_admit(lh_chain_place *place, uint64_t number,
                               const lh_step_manifest *manifest, bool *resyncs, lh_error *error) {
    assert(place->is_set);
    lh_status status = check_epoch(place, number, manifest, error);
    if (status == LH_OK)
        status = check_resync(place, manifest, error);
    *resyncs = status == LH_OK && manifest->resyncs && place->awaits_resync;
    return status;
}

void lh_chain_place_note_resync(lh_chain_place *place) {
    assert(place->awaits_resync);
    place->awaits_resync = false;
}
