/* Open addressing, at most half full. */
#include "worker/weights/digest_set.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 256u

static const uint8_t nothing[LH_SHA256_BYTES];

void lh_digest_set_reset(lh_digest_set *set) {
    free(set->places);
    *set = (lh_digest_set){0};
}

/* Where it is, or the free place where it would be; capacity > 0. */
static size_t place_of(const lh_digest_set *set, const uint8_t *digest) {
    uint64_t first;
    memcpy(&first, digest, sizeof first);
    size_t place = (size_t)first & (set->capacity - 1);
    while (memcmp(set->places[place], nothing, sizeof nothing) != 0 &&
           memcmp(set->places[place], digest, LH_SHA256_BYTES) != 0)
        place = (place + 1) & (set->capacity - 1);
    return place;
}

bool lh_digest_set_has(const lh_digest_set *set, const uint8_t digest[LH_SHA256_BYTES]) {
    return set->capacity > 0 && memcmp(digest, nothing, sizeof nothing) != 0 &&
           memcmp(set->places[place_of(set, digest)], digest, LH_SHA256_BYTES) == 0;
}

static bool grow(lh_digest_set *set) {
    lh_digest_set larger = {.count = set->count,
                            .capacity = set->capacity ? 2 * set->capacity : CAPACITY_FIRST};
    larger.places = calloc(larger.capacity, sizeof *larger.places);
    if (!larger.places)
        return false;
    for (size_t i = 0; i < set->capacity; i++)
        memcpy(larger.places[place_of(&larger, set->places[i])], set->places[i], LH_SHA256_BYTES);
    free(set->places);
    *set = larger;
    return true;
}

bool lh_digest_set_add(lh_digest_set *set, const uint8_t digest[LH_SHA256_BYTES]) {
    if (lh_digest_set_has(set, digest))
        return true;
    if (2 * (set->count + 1) > set->capacity && !grow(set))
        return false;
    memcpy(set->places[place_of(set, digest)], digest, LH_SHA256_BYTES);
    set->count++;
    return true;
}
