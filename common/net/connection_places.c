/* Two lists; counts are made when somebody has to go. */
#include "common/net/connection_places.h"

#include <assert.h>

void lh_connection_places_init(lh_connection_places *places, uint32_t new_max,
                               uint32_t proven_max) {
    assert(new_max > 0 && proven_max > 0);
    *places = (lh_connection_places){.new_max = new_max, .proven_max = proven_max};
    TAILQ_INIT(&places->new_list);
    TAILQ_INIT(&places->proven_list);
}

void lh_connection_places_add(lh_connection_places *places, lh_connection_place *place,
                              uint64_t address) {
    *place = (lh_connection_place){.address = address};
    TAILQ_INSERT_TAIL(&places->new_list, place, links);
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
    TAILQ_REMOVE(&places->new_list, place, links);
    TAILQ_INSERT_TAIL(&places->proven_list, place, links);
    place->is_proven = true;
    place->is_active = false;
    place->turn = 0;
    places->new_count--;
    places->proven_count++;
    note_known(places, place->address);
}

static struct lh_connection_place_list *list_of(lh_connection_places *places,
                                                const lh_connection_place *place) {
    return place->is_proven ? &places->proven_list : &places->new_list;
}

void lh_connection_places_remove(lh_connection_places *places, lh_connection_place *place) {
    uint32_t *count = place->is_proven ? &places->proven_count : &places->new_count;
    assert(*count > 0);
    (*count)--;
    TAILQ_REMOVE(list_of(places, place), place, links);
}

/* ---- Whose turn it is ---- */

void lh_connection_places_wait(lh_connection_places *places, lh_connection_place *place) {
    assert(!place->is_proven && place->turn == 0);
    place->turn = ++places->turns;
}

enum { GROUPS = 4 };

static uint32_t group_of(const lh_connection_places *places, const lh_connection_place *place) {
    return (is_known(places, place->address) ? 2u : 0u) + (place->had_a_turn ? 1u : 0u);
}

lh_connection_place *lh_connection_places_take_turn(lh_connection_places *places) {
    lh_connection_place *place, *first[GROUPS] = {NULL};
    TAILQ_FOREACH(place, &places->new_list, links) {
        lh_connection_place **of_group = &first[group_of(places, place)];
        if (place->turn > 0 && (!*of_group || place->turn < (*of_group)->turn))
            *of_group = place;
    }
    uint32_t next = places->last_group;
    do
        next = (next + 1) % GROUPS;
    while (!first[next] && next != places->last_group);
    place = first[next];
    if (!place)
        return NULL;
    places->last_group = next;
    place->turn = 0;
    place->had_a_turn = true;
    return place;
}

/* ---- Who has to go ---- */

/* The connections of the same kind from its address. */
static uint32_t count_of(lh_connection_places *places, const lh_connection_place *place) {
    const lh_connection_place *other;
    uint32_t count = 0;
    TAILQ_FOREACH(other, list_of(places, place), links) {
        count += other->address == place->address;
    }
    return count;
}

static bool may_go(lh_connection_places *places, const lh_connection_place *place,
                   const lh_connection_place *newcomer) {
    if (place == newcomer || place->is_busy)
        return false;
    return !place->is_proven || !place->is_active ||
           count_of(places, place) > count_of(places, newcomer);
}

/* Rather than the other one, which is older. */
static bool goes_first(lh_connection_places *places, const lh_connection_place *place,
                       const lh_connection_place *other) {
    bool place_is_known = is_known(places, place->address),
         other_is_known = is_known(places, other->address);
    if (place->is_active != other->is_active)
        return other->is_active;
    if (place_is_known != other_is_known)
        return other_is_known;
    return count_of(places, place) > count_of(places, other);
}

lh_connection_place *lh_connection_places_surplus(lh_connection_places *places,
                                                  lh_connection_place *newcomer) {
    bool is_full = newcomer->is_proven ? places->proven_count > places->proven_max
                                       : places->new_count > places->new_max;
    lh_connection_place *place, *first = NULL;
    if (!is_full)
        return NULL;
    TAILQ_FOREACH(place, list_of(places, newcomer), links) {
        if (may_go(places, place, newcomer) && (!first || goes_first(places, place, first)))
            first = place;
    }
    return first ? first : newcomer;
}
