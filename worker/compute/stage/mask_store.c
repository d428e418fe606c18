/* Chains of a hash table. */
#include "worker/compute/stage/mask_store.h"

#include "common/protocol/mask_code.h"

#include <stdlib.h>
#include <sys/queue.h>

typedef struct kept_mask {
    LIST_ENTRY(kept_mask) in_bucket;
    uint64_t number;
    uint64_t words[];
} kept_mask;

LIST_HEAD(mask_bucket, kept_mask);

/* Numbers ascend, so that the lowest bits spread them evenly. */
#define BUCKETS LH_STEP_MASKS_KEPT_MAX
_Static_assert((BUCKETS & (BUCKETS - 1)) == 0, "a power of two");

struct lh_mask_store {
    uint32_t vocabulary, count;
    struct mask_bucket buckets[BUCKETS];
};

lh_status lh_mask_store_create(uint32_t vocabulary, lh_mask_store **store, lh_error *error) {
    lh_mask_store *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for masks");
    made->vocabulary = vocabulary;
    *store = made;
    return LH_OK;
}

void lh_mask_store_destroy(lh_mask_store *store) {
    if (!store)
        return;
    lh_mask_store_reset(store);
    free(store);
}

static struct mask_bucket *bucket_of(const lh_mask_store *store, uint64_t number) {
    return (struct mask_bucket *)&store->buckets[number & (BUCKETS - 1)];
}

static kept_mask *find(const lh_mask_store *store, uint64_t number) {
    kept_mask *mask;
    LIST_FOREACH(mask, bucket_of(store, number), in_bucket)
    if (mask->number == number)
        break;
    return mask;
}

lh_status lh_mask_store_keep(lh_mask_store *store, const lh_step_mask *mask, lh_error *error) {
    if (mask->vocabulary != store->vocabulary)
        return lh_fail(error, LH_ERR_INVALID, "mask %llu: over %u tokens; the model has %u",
                       (unsigned long long)mask->number, mask->vocabulary, store->vocabulary);
    if (find(store, mask->number))
        return LH_OK;
    if (store->count == LH_STEP_MASKS_KEPT_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "mask %llu: %u are kept, which is the limit",
                       (unsigned long long)mask->number, store->count);
    kept_mask *made =
        malloc(sizeof *made + lh_mask_code_words(mask->vocabulary) * sizeof made->words[0]);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a mask");
    lh_status status =
        lh_mask_decode(mask->code, mask->code_bytes, mask->vocabulary, made->words, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    made->number = mask->number;
    LIST_INSERT_HEAD(bucket_of(store, mask->number), made, in_bucket);
    store->count++;
    return LH_OK;
}

static void forget(lh_mask_store *store, kept_mask *mask) {
    LIST_REMOVE(mask, in_bucket);
    free(mask);
    store->count--;
}

void lh_mask_store_drop(lh_mask_store *store, uint64_t number) {
    kept_mask *mask = find(store, number);
    if (mask)
        forget(store, mask);
}

void lh_mask_store_reset(lh_mask_store *store) {
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (!LIST_EMPTY(&store->buckets[i]))
            forget(store, LIST_FIRST(&store->buckets[i]));
}

const uint64_t *lh_mask_store_find(const lh_mask_store *store, uint64_t number) {
    const kept_mask *mask = find(store, number);
    return mask ? mask->words : NULL;
}
