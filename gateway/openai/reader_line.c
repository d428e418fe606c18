/* Lists: of clients, and of what waits of each. A client is in the list while something of it waits
 * or runs. */
#include "gateway/openai/reader_line.h"

#include <assert.h>
#include <stdlib.h>

struct lh_reader_client {
    lh_reader_line *line;
    lh_reader_client *next;
    uint64_t id;
    int64_t turn_us;
    uint32_t running;
    lh_reader_waiting waiting;
    lh_reader_place *first, *last;
};

static lh_reader_client *find(const lh_reader_line *line, uint64_t id) {
    lh_reader_client *at = line->clients;
    while (at && at->id != id)
        at = at->next;
    return at;
}

static void link_client(lh_reader_line *line, lh_reader_client *client) {
    client->line = line;
    client->next = line->clients;
    line->clients = client;
}

static void unlink_client(const lh_reader_client *client) {
    lh_reader_client **link = &client->line->clients;
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
}

static void drop_idle(lh_reader_client *client) {
    if (client->first || client->running)
        return;
    unlink_client(client);
    free(client);
}

/* Behind what waits already. */
static void append(lh_reader_client *owner, lh_reader_place *place) {
    place->owner = owner;
    place->next = NULL;
    place->previous = owner->last;
    *(owner->last ? &owner->last->next : &owner->first) = place;
    owner->last = place;
    owner->waiting.count++;
    owner->waiting.bytes += place->bytes;
    owner->line->count++;
    owner->line->bytes += place->bytes;
}

static void take_out(lh_reader_place *place) {
    lh_reader_client *owner = place->owner;
    lh_reader_line *line = owner->line;
    assert(owner->waiting.count > 0 && owner->waiting.bytes >= place->bytes);
    assert(line->count > 0 && line->bytes >= place->bytes);
    *(place->previous ? &place->previous->next : &owner->first) = place->next;
    *(place->next ? &place->next->previous : &owner->last) = place->previous;
    place->owner = NULL;
    place->next = place->previous = NULL;
    owner->waiting.count--;
    owner->waiting.bytes -= place->bytes;
    line->count--;
    line->bytes -= place->bytes;
}

bool lh_reader_line_push(lh_reader_line *line, uint64_t client, int64_t turn_us,
                         lh_reader_place *place) {
    lh_reader_client *owner = find(line, client);
    if (!owner) {
        if (!(owner = calloc(1, sizeof *owner)))
            return false;
        owner->id = client;
        owner->turn_us = turn_us;
        link_client(line, owner);
    }
    append(owner, place);
    return true;
}

void lh_reader_line_remove(lh_reader_place *place) {
    lh_reader_client *owner = place->owner;
    take_out(place);
    drop_idle(owner);
}

/* Of equals the one that stands last in the list, which is the one that waits longest: new clients
 * are put in front. */
static lh_reader_client *find_turn(const lh_reader_line *line) {
    lh_reader_client *least = NULL;
    for (lh_reader_client *at = line->clients; at; at = at->next)
        if (at->first && at->running < line->running_max &&
            (!least || at->turn_us <= least->turn_us))
            least = at;
    return least;
}

lh_reader_place *lh_reader_line_take(lh_reader_line *line, uint64_t *client) {
    lh_reader_client *turn = find_turn(line);
    if (!turn)
        return NULL;
    lh_reader_place *place = turn->first;
    take_out(place);
    turn->running++;
    *client = turn->id;
    return place;
}

void lh_reader_line_end(lh_reader_line *line, uint64_t client) {
    lh_reader_client *owner = find(line, client);
    assert(owner && owner->running > 0);
    owner->running--;
    drop_idle(owner);
}

void lh_reader_line_set_turn(lh_reader_line *line, uint64_t client, int64_t turn_us) {
    lh_reader_client *owner = find(line, client);
    if (owner)
        owner->turn_us = turn_us;
}

/* To the list of another line, with all that waits. */
static void relink(lh_reader_line *to, lh_reader_client *client) {
    lh_reader_line *from = client->line;
    unlink_client(client);
    link_client(to, client);
    from->count -= client->waiting.count;
    from->bytes -= client->waiting.bytes;
    to->count += client->waiting.count;
    to->bytes += client->waiting.bytes;
}

bool lh_reader_line_move(lh_reader_line *from, lh_reader_line *to, uint64_t client) {
    lh_reader_client *owner = find(from, client), *there = find(to, client);
    if (!owner || !owner->first || (!there && owner->running))
        return false;
    if (!there) {
        relink(to, owner);
        return true;
    }
    while (owner->first) {
        lh_reader_place *place = owner->first;
        take_out(place);
        append(there, place);
    }
    drop_idle(owner);
    return true;
}

lh_reader_waiting lh_reader_line_waiting(const lh_reader_line *line, uint64_t client) {
    const lh_reader_client *owner = find(line, client);
    return owner ? owner->waiting : (lh_reader_waiting){0};
}
