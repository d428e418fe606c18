/* The memory of the host is filled in one turn, that of a device in turns of LH_PUT_BYTES_MAX. */
#include "worker/compute/stage/packing.h"

#include "worker/compute/stage/aligned_array.h"

#include <stdatomic.h>

/* Parts from `first` on, whose bytes of array i go to filled[i]. */
typedef struct lh_packing_turn {
    const lh_packing *packing;
    uint32_t first, count;
    uint8_t *filled[LH_PACKING_ARRAYS_MAX];
    _Atomic lh_status status; /* the first that is not LH_OK */
    lh_error error;
} lh_packing_turn;

static size_t bytes_between(const lh_packing *packing, uint32_t array, uint32_t first,
                            uint32_t next) {
    return packing->offset(packing->context, array, next) -
           packing->offset(packing->context, array, first);
}

static void pack_part(void *context, uint32_t number, uint32_t thread) {
    lh_packing_turn *turn = context;
    const lh_packing *packing = turn->packing;
    const uint32_t part = turn->first + number;
    void *places[LH_PACKING_ARRAYS_MAX];
    lh_error problem;
    if (atomic_load(&turn->status) != LH_OK)
        return;
    for (uint32_t i = 0; i < packing->array_count; i++)
        places[i] = turn->filled[i] + bytes_between(packing, i, turn->first, part);
    lh_status none = LH_OK;
    lh_status status = packing->pack(packing->context, part, places,
                                     packing->scratch + thread * packing->scratch_bytes, &problem);
    if (status != LH_OK && atomic_compare_exchange_strong(&turn->status, &none, status))
        turn->error = problem;
}

static lh_status run_turn(lh_packing_turn *turn, lh_error *error) {
    lh_thread_pool_run(turn->packing->compute->pool, turn->count, pack_part, turn);
    lh_status status = atomic_load(&turn->status);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "%s", turn->error.message);
}

/* ---- For a device ---- */

static size_t bytes_of_parts(const lh_packing *packing, uint32_t first, uint32_t next) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < packing->array_count; i++)
        bytes += lh_aligned_bytes(bytes_between(packing, i, first, next));
    return bytes;
}

/* Parts from `first` on that one put_memory holds; 0: not even one. */
static uint32_t parts_at_once(const lh_packing *packing, uint32_t first) {
    uint32_t next = first;
    while (next < packing->parts && bytes_of_parts(packing, first, next + 1) <= LH_PUT_BYTES_MAX)
        next++;
    return next - first;
}

static void begin_turn(lh_packing_turn *turn) {
    const lh_packing *packing = turn->packing;
    const lh_compute *compute = packing->compute;
    const uint32_t next = turn->first + turn->count;
    uint8_t *memory = compute->ops->put_memory(compute, bytes_of_parts(packing, turn->first, next));
    for (uint32_t i = 0; i < packing->array_count; i++) {
        turn->filled[i] = memory;
        memory += lh_aligned_bytes(bytes_between(packing, i, turn->first, next));
    }
}

static void end_turn(const lh_packing_turn *turn) {
    const lh_packing *packing = turn->packing;
    const lh_compute *compute = packing->compute;
    for (uint32_t i = 0; i < packing->array_count; i++) {
        char *to = (char *)packing->arrays[i] + packing->offset(packing->context, i, turn->first);
        compute->ops->put_filled(compute, to, turn->filled[i],
                                 bytes_between(packing, i, turn->first, turn->first + turn->count));
    }
}

static lh_status run_for_device(const lh_packing *packing, lh_error *error) {
    lh_packing_turn turn = {.packing = packing};
    for (; turn.first < packing->parts; turn.first += turn.count) {
        turn.count = parts_at_once(packing, turn.first);
        if (turn.count == 0) {
            return lh_fail(error, LH_ERR_LIMIT, "rows of GGUF tensor %.*s are too long for a GPU",
                           (int)packing->tensor->name.length, packing->tensor->name.bytes);
        }
        begin_turn(&turn);
        lh_status status = run_turn(&turn, error);
        if (status != LH_OK)
            return status;
        end_turn(&turn);
    }
    return LH_OK;
}

lh_status lh_packing_run(const lh_packing *packing, lh_error *error) {
    lh_packing_turn turn = {.packing = packing, .count = packing->parts};
    if (!packing->compute->ops->is_host)
        return run_for_device(packing, error);
    for (uint32_t i = 0; i < packing->array_count; i++)
        turn.filled[i] = packing->arrays[i];
    return run_turn(&turn, error);
}
