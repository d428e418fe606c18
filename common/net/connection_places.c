/* One list; counts are made when somebody has to go. */
#include "common/net/connection_places.h"

#include <assert.h>

void lh_connection_places_init(lh_connection_places *places, uint32_t new_max,
                               uint32_t proven_max) {
    assert(new_max > 0 && proven_max > 0);
    *places = (lh_connection_places){.new_max = new_max, .proven_max = proven_max};
    TAILQ_INIT(&places->list);
}

void lh_connection_places_add(lh_connection_places *places, lh_connection_place *place,
                              uint64_t address) {
    *place = (lh_connection_place){.address = address};
    TAILQ_INSERT_TAIL(&places->list, place, links);
    places->new_count++;
}

static bool is_known(const lh_connection_places *places, uint64_t address) {
    for (uint32_t i = 0; i < places->known_count; i++)
        if (places->known[i] == address)
            return true;
    return false;
}

static void note_known(lh_connection_places *places, uint64_t address) {
    if (is_known(places, address))
        return;
    places->known[places->known_next] = address;
    places->known_next = (places->known_next + 1) % LH_KNOWN_ADDRESSES;
    places->known_count += places->known_count < LH_KNOWN_ADDRESSES;
}

void lh_connection_places_prove(lh_connection_places *places, lh_connection_place *place) {
    assert(!place->is_proven && places->new_count > 0);
    place->is_proven = true;
    place->is_active = false;
    places->new_count--;
    places->proven_count++;
    note_known(places, place->address);
}

void lh_connection_places_remove(lh_connection_places *places, lh_connection_place *place) {
    uint32_t *count = place->is_proven ? &places->proven_count : &places->new_count;
    assert(*count > 0);
    (*count)--;
    TAILQ_REMOVE(&places->list, place, links);
}

/* ---- Who has to go ---- */

/* The connections of the same kind from its address. */
static uint32_t count_of(const lh_connection_places *places, const lh_connection_place *place) {
    const lh_connection_place *other;
    uint32_t count = 0;
    TAILQ_FOREACH(other, &places->list, links) {
        count += other->is_proven == place->is_proven && other->address == place->address;
    }
    return count;
}

static bool may_go(const lh_connection_places *places, const lh_connection_place *place,
                   const lh_connection_place *newcomer) {
    if (place == newcomer || place->is_proven != newcomer->is_proven || place->is_busy)
        return false;
    return !place->is_proven || !place->is_active ||
           count_of(places, place) > count_of(places, newcomer);
}

/* Rather than the other one, which is older. */
static bool goes_first(const lh_connection_places *places, const lh_connection_place *place,
                       const lh_connection_place *other) {
    bool place_is_known = is_known(places, place->address),
         other_is_known = is_known(places, other->address);
    if (place->is_active != other->is_active)
        return other->is_active;
    if (place_is_known != other_is_known)
        return other_is_known;
    return count_of(places, place) > count_of(places, other);
}

lh_connection_place *lh_connection_places_surplus(const lh_connection_places *places,
                                                  lh_connection_place *newcomer) {
    bool is_full = newcomer->is_proven ? places->proven_count > places->proven_max
                                       : places->new_count > places->new_max;
    lh_connection_place *place, *first = NULL;
    if (!is_full)
        return NULL;
    TAILQ_FOREACH(place, &places->list, links) {
        if (may_go(places, place, newcomer) && (!first || goes_first(places, place, first)))
            first = place;
    }
    return first ? first : newcomer;
}
