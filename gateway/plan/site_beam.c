/* Two generations of candidates. */
#include "gateway/plan/site_beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 8u
/* Sites of one ring: its stages are 64 at most, and each hop between sites is dear. */
#define WAY_MAX 24u
/* Generations that bring nothing before it stops. */
#define PATIENCE 2u

typedef struct candidate {
    uint64_t set;
    uint32_t way_count;
    uint8_t way[WAY_MAX];
    uint32_t reached;       /* layers */
    double way_us, fill_us; /* of all that are reached */
} candidate;

typedef struct generation {
    uint32_t count;
    candidate items[WIDTH];
    double *fills; /* [WIDTH][row] */
} generation;

struct lh_site_beam {
    const lh_parts *parts;
    uint32_t row;
    generation now, next;
    double *tried; /* [row] */
    double *steps; /* [WAY_MAX + 1][row]: of one way, site by site */
    const lh_site_fill *const *fills;
    uint32_t count;
    double limit_us;
};

lh_status lh_site_beam_create(const lh_parts *parts, uint32_t layers, lh_site_beam **beam,
                              lh_error *error) {
    lh_site_beam *b = calloc(1, sizeof *b);
    size_t row = layers + 1;
    if (b) {
        b->parts = parts;
        b->row = layers + 1;
        b->now.fills = calloc(WIDTH * row, sizeof *b->now.fills);
        b->next.fills = calloc(WIDTH * row, sizeof *b->next.fills);
        b->tried = calloc(row, sizeof *b->tried);
        b->steps = calloc((WAY_MAX + 1) * row, sizeof *b->steps);
    }
    if (!b || !b->now.fills || !b->next.fills || !b->tried || !b->steps) {
        lh_site_beam_destroy(b);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan over sites");
    }
    *beam = b;
    return LH_OK;
}

void lh_site_beam_destroy(lh_site_beam *beam) {
    if (!beam)
        return;
    free(beam->steps);
    free(beam->tried);
    free(beam->next.fills);
    free(beam->now.fills);
    free(beam);
}

/* ---- Ways ---- */

static double hop_us(const lh_site_beam *b, uint32_t from, uint32_t to) {
    const lh_part_hop *hop = &b->parts->hops[from][to];
    return hop->busy_us <= b->limit_us ? lh_part_hop_us(hop) : INFINITY;
}

static double way_us(const lh_site_beam *b, const uint8_t *way, uint32_t count) {
    uint32_t from = LH_PART_GATEWAY;
    double us = 0;
    for (uint32_t i = 0; i < count; i++) {
        us += hop_us(b, from, b->fills[way[i]]->site);
        from = b->fills[way[i]]->site;
    }
    return us + hop_us(b, from, LH_PART_GATEWAY);
}

static void insert(candidate *c, uint32_t at, uint8_t site) {
    memmove(c->way + at + 1, c->way + at, c->way_count - at);
    c->way[at] = site;
    c->way_count++;
}

static void reverse(uint8_t *way, uint32_t first, uint32_t last) {
    for (; first < last; first++, last--) {
        uint8_t kept = way[first];
        way[first] = way[last];
        way[last] = kept;
    }
}

static void mend(const lh_site_beam *b, candidate *c) {
    bool is_better = true;
    while (is_better) {
        is_better = false;
        for (uint32_t i = 0; i < c->way_count; i++)
            for (uint32_t j = i + 1; j < c->way_count; j++) {
                reverse(c->way, i, j);
                double us = way_us(b, c->way, c->way_count);
                if (us < c->way_us * (1 - 1e-12)) {
                    c->way_us = us;
                    is_better = true;
                } else {
                    reverse(c->way, i, j);
                }
            }
    }
}

static void insert_best(const lh_site_beam *b, const candidate *before, uint8_t site,
                        candidate *made) {
    double best_us = INFINITY;
    uint32_t best_at = 0;
    for (uint32_t at = 0; at <= before->way_count; at++) {
        *made = *before;
        insert(made, at, site);
        double us = way_us(b, made->way, made->way_count);
        if (us < best_us) {
            best_us = us;
            best_at = at;
        }
    }
    *made = *before;
    insert(made, best_at, site);
    made->way_us = best_us;
    made->set |= UINT64_C(1) << site;
}

/* ---- Layers ---- */

static void add_up(uint32_t row, const double *here, const double *there, double *both) {
    for (uint32_t n = 0; n < row; n++)
        both[n] = INFINITY;
    for (uint32_t h = 0; h < row; h++)
        for (uint32_t t = 1; isfinite(here[h]) && h + t < row; t++)
            both[h + t] = fmin(both[h + t], here[h] + there[t]);
}

static void note_reached(const lh_site_beam *b, const double *fill, candidate *c) {
    c->reached = b->row - 1;
    while (c->reached > 0 && isinf(fill[c->reached]))
        c->reached--;
    c->fill_us = fill[c->reached];
}

/* ---- Generations ---- */

static bool is_better(const candidate *a, const candidate *b) {
    if (a->reached != b->reached)
        return a->reached > b->reached;
    double a_us = a->way_us + a->fill_us, b_us = b->way_us + b->fill_us;
    return a_us != b_us ? a_us < b_us : a->set < b->set;
}

/* The same set may have been reached by another way. */
static void keep(lh_site_beam *b, const candidate *c, const double *fill) {
    generation *g = &b->next;
    uint32_t at = g->count;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->items[i].set == c->set)
            at = i;
    if (at == g->count && g->count == WIDTH) {
        at = 0;
        for (uint32_t i = 1; i < WIDTH; i++)
            if (is_better(&g->items[at], &g->items[i]))
                at = i;
    }
    if (at < g->count && !is_better(c, &g->items[at]))
        return;
    g->count += at == g->count;
    g->items[at] = *c;
    memcpy(g->fills + (size_t)at * b->row, fill, b->row * sizeof *fill);
}

static void grow(lh_site_beam *b, const candidate *from, const double *fill) {
    for (uint32_t site = 0; site < b->count; site++) {
        candidate made;
        if (from->set & UINT64_C(1) << site || from->way_count == WAY_MAX)
            continue;
        insert_best(b, from, (uint8_t)site, &made);
        if (isinf(made.way_us))
            continue;
        add_up(b->row, fill, b->fills[site]->us, b->tried);
        note_reached(b, b->tried, &made);
        if (made.reached >= made.way_count)
            keep(b, &made, b->tried);
    }
}

static void swap_generations(lh_site_beam *b) {
    generation kept = b->now;
    b->now = b->next;
    b->next = kept;
    b->next.count = 0;
}

static bool search(lh_site_beam *b, candidate *best) {
    uint32_t idle = 0;
    bool is_found = false;
    b->next.count = 0;
    b->now.count = 1;
    b->now.items[0] = (candidate){0};
    for (uint32_t n = 0; n < b->row; n++)
        b->now.fills[n] = n == 0 ? 0 : INFINITY;
    while (b->now.count > 0 && idle < PATIENCE) {
        for (uint32_t i = 0; i < b->now.count; i++)
            grow(b, &b->now.items[i], b->now.fills + (size_t)i * b->row);
        swap_generations(b);
        bool has_gained = false, has_all = false;
        for (uint32_t i = 0; i < b->now.count; i++) {
            candidate *c = &b->now.items[i];
            mend(b, c);
            has_all |= c->reached + 1 == b->row;
            if (c->reached + 1 == b->row && (!is_found || is_better(c, best))) {
                *best = *c;
                is_found = has_gained = true;
            }
        }
        idle = has_gained || !has_all ? 0 : idle + 1;
    }
    return is_found;
}

/* ---- Stages ---- */

static bool append_stages(lh_site_beam *b, const candidate *c, lh_layout *layout) {
    uint32_t layers[WAY_MAX], left = b->row - 1;
    for (uint32_t n = 0; n < b->row; n++)
        b->steps[n] = n == 0 ? 0 : INFINITY;
    for (uint32_t i = 0; i < c->way_count; i++)
        add_up(b->row, b->steps + (size_t)i * b->row, b->fills[c->way[i]]->us,
               b->steps + (size_t)(i + 1) * b->row);
    for (uint32_t i = c->way_count; i-- > 0;) {
        const double *here = b->steps + (size_t)i * b->row, *there = b->fills[c->way[i]]->us;
        layers[i] = 1;
        for (uint32_t t = 2; t <= left; t++)
            if (here[left - t] + there[t] < here[left - layers[i]] + there[layers[i]])
                layers[i] = t;
        left -= layers[i];
    }
    layout->stage_count = 0;
    for (uint32_t i = 0; i < c->way_count; i++)
        if (!lh_site_fill_append(b->fills[c->way[i]], 0, layers[i], layout))
            return false;
    return true;
}

bool lh_site_beam_find(lh_site_beam *beam, const lh_site_fill *const *fills, uint32_t count,
                       double limit_us, lh_layout *layout) {
    candidate best = {0};
    beam->fills = fills;
    beam->count = count;
    beam->limit_us = limit_us;
    return search(beam, &best) && append_stages(beam, &best, layout);
}
