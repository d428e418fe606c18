/* Sets of sites, ways through them, and stages out of both. */
#include "gateway/plan/site_search.h"

#include "gateway/plan/site_beam.h"
#include "gateway/plan/site_fill.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SETS (1u << LH_SITE_SEARCH_EXACT)
#define S    LH_SITE_SEARCH_EXACT

struct lh_site_search {
    const lh_parts *parts;
    lh_fill_layer layer;
    uint32_t site_count, row;             /* sites that have machines */
    lh_site_fill fills[LH_MAP_SITES_MAX]; /* [site_count] */
    uint32_t only;                        /* this one of the map's, or LH_PART_GATEWAY */
    uint32_t count;                       /* sites that are looked at */
    uint32_t looked_at[LH_MAP_SITES_MAX];
    double useful_us; /* what takes as long or longer is of no use */
    lh_site_beam *beam;
    double *sets;            /* [SETS][row] */
    double *pairs;           /* [S][S][row]: first and last site together */
    double ways[S][SETS][S]; /* first, set, last */
    uint8_t before[S][SETS][S];
};

/* ---- Life ---- */

/* The mean of those that nobody is pinned to. */
static lh_fill_layer mean_layer(const lh_parts *parts) {
    const lh_model_profile *model = parts->model;
    lh_fill_layer mean = {.embedding_bytes = model->embedding_bytes,
                          .head_bytes = model->head_bytes};
    for (uint32_t i = 0; i < model->layers; i++) {
        if (parts->pinned_layers[i + 1] > parts->pinned_layers[i])
            continue;
        mean.count++;
        mean.row_mib += parts->row_mib[i + 1] - parts->row_mib[i];
        mean.held_bytes += model->layer_bytes[i];
    }
    if (parts->pinned_layers[1] > 0)
        mean.embedding_bytes = 0;
    if (parts->pinned_layers[model->layers] > parts->pinned_layers[model->layers - 1])
        mean.head_bytes = 0;
    if (mean.count > 0) {
        mean.row_mib /= mean.count;
        mean.held_bytes = (mean.held_bytes + mean.count - 1) / mean.count;
    }
    return mean;
}

/* By their first machines: in no order of the map's. Returns their number. */
static uint32_t list_sites(const lh_parts *parts, uint32_t sites[LH_MAP_SITES_MAX]) {
    bool is_listed[LH_MAP_SITES_MAX] = {false};
    uint32_t count = 0;
    for (uint32_t m = 0; m < parts->machine_count; m++) {
        const lh_part_machine *machine = &parts->machines[m];
        if (machine->pinned.first < machine->pinned.last || is_listed[machine->site])
            continue;
        is_listed[machine->site] = true;
        sites[count++] = machine->site;
    }
    return count;
}

lh_status lh_site_search_create(const lh_parts *parts, lh_site_search **search, lh_error *error) {
    lh_site_search *s = calloc(1, sizeof *s);
    lh_status status = LH_OK;
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    s->parts = parts;
    s->layer = mean_layer(parts);
    s->row = s->layer.count + 1;
    s->sets = calloc((size_t)SETS * s->row, sizeof *s->sets);
    s->pairs = calloc((size_t)S * S * s->row, sizeof *s->pairs);
    if (!s->sets || !s->pairs)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    uint32_t sites[LH_MAP_SITES_MAX], count = list_sites(parts, sites);
    while (s->site_count < count && status == LH_OK) {
        uint32_t next = s->site_count++;
        status = lh_site_fill_init(&s->fills[next], parts, sites[next], s->layer.count, error);
    }
    if (status == LH_OK)
        status = lh_site_beam_create(parts, s->layer.count, &s->beam, error);
    if (status != LH_OK) {
        lh_site_search_destroy(s);
        return status;
    }
    lh_site_search_limit(s, LH_PART_GATEWAY);
    *search = s;
    return LH_OK;
}

void lh_site_search_destroy(lh_site_search *search) {
    if (!search)
        return;
    for (uint32_t i = 0; i < search->site_count; i++)
        lh_site_fill_reset(&search->fills[i]);
    lh_site_beam_destroy(search->beam);
    free(search->pairs);
    free(search->sets);
    free(search);
}

void lh_site_search_limit(lh_site_search *search, uint32_t site) {
    search->count = 0;
    for (uint32_t i = 0; i < search->site_count; i++)
        if (site == LH_PART_GATEWAY || search->fills[i].site == site)
            search->looked_at[search->count++] = i;
}

static const lh_site_fill *fill_of(const lh_site_search *s, uint32_t i) {
    return &s->fills[s->looked_at[i]];
}

static const double *us_of(const lh_site_search *s, uint32_t i, uint32_t kind) {
    return fill_of(s, i)->us + kind * s->row;
}

static const lh_part_hop *hop_between(const lh_site_search *s, uint32_t from, uint32_t to) {
    return &s->parts->hops[fill_of(s, from)->site][fill_of(s, to)->site];
}

/* ---- Layers ---- */

/* Some layers here, at least one there. */
static void add_up(const lh_site_search *s, const double *here, const double *there, double *both) {
    for (uint32_t n = 0; n < s->row; n++)
        both[n] = INFINITY;
    for (uint32_t h = 0; h < s->row; h++) {
        if (here[h] >= s->useful_us)
            continue;
        for (uint32_t t = 1; h + t < s->row; t++) {
            double us = here[h] + there[t];
            both[h + t] = us < both[h + t] ? us : both[h + t];
        }
    }
}

static void fill_sets(lh_site_search *s) {
    for (uint32_t n = 0; n < s->row; n++)
        s->sets[n] = n == 0 ? 0 : INFINITY;
    for (uint32_t set = 1; set < 1u << s->count; set++) {
        uint32_t site = (uint32_t)__builtin_ctz(set), rest = set & (set - 1);
        add_up(s, s->sets + (size_t)rest * s->row, us_of(s, site, 0),
               s->sets + (size_t)set * s->row);
    }
}

static double *pair_of(const lh_site_search *s, uint32_t first, uint32_t last) {
    return s->pairs + ((size_t)first * S + last) * s->row;
}

static void fill_pairs(lh_site_search *s) {
    for (uint32_t a = 0; a < s->count; a++)
        for (uint32_t z = 0; z < s->count; z++) {
            if (a == z)
                continue;
            double first[LH_MAP_LAYERS_MAX + 1];
            memcpy(first, us_of(s, a, LH_FILL_FIRST), s->row * sizeof *first);
            first[0] = INFINITY; /* the first site has a layer */
            add_up(s, first, us_of(s, z, LH_FILL_LAST), pair_of(s, a, z));
        }
}

/* ---- Ways ---- */

static void find_ways(lh_site_search *s, uint32_t first, double limit_us) {
    double(*ways)[S] = s->ways[first];
    for (uint32_t set = 0; set < 1u << s->count; set++)
        for (uint32_t last = 0; last < s->count; last++)
            ways[set][last] = INFINITY;
    ways[1u << first][first] = 0;
    for (uint32_t set = 1; set < 1u << s->count; set++)
        for (uint32_t at = 0; at < s->count; at++) {
            if (isinf(ways[set][at]))
                continue;
            for (uint32_t next = 0; next < s->count; next++) {
                const lh_part_hop *hop = hop_between(s, at, next);
                uint32_t then = set | 1u << next;
                double us = ways[set][at] + lh_part_hop_us(hop);
                if (set & 1u << next || hop->busy_us > limit_us || us >= ways[then][next])
                    continue;
                ways[then][next] = us;
                s->before[first][then][next] = (uint8_t)at;
            }
        }
}

/* ---- Both ---- */

typedef struct choice {
    double us;
    uint32_t set, first, last;
    uint32_t ends; /* layers of the first and the last site together */
} choice;

static void consider(const lh_site_search *s, double limit_us, choice *tried, choice *best) {
    const lh_part_hop *in = &s->parts->hops[LH_PART_GATEWAY][fill_of(s, tried->first)->site],
                      *out = &s->parts->hops[fill_of(s, tried->last)->site][LH_PART_GATEWAY];
    uint32_t layers = s->layer.count;
    double way_us =
        lh_part_hop_us(in) + s->ways[tried->first][tried->set][tried->last] + lh_part_hop_us(out);
    if (in->busy_us > limit_us || out->busy_us > limit_us || way_us >= best->us)
        return;
    if (tried->first == tried->last) {
        tried->us = way_us + us_of(s, tried->first, LH_FILL_FIRST | LH_FILL_LAST)[layers];
        tried->ends = layers;
        if (tried->set == 1u << tried->first && tried->us < best->us)
            *best = *tried;
        return;
    }
    const double *ends = pair_of(s, tried->first, tried->last),
                 *rest =
                     s->sets +
                     (size_t)(tried->set & ~(1u << tried->first) & ~(1u << tried->last)) * s->row;
    for (uint32_t n = 2; n <= layers; n++) {
        tried->us = way_us + ends[n] + rest[layers - n];
        tried->ends = n;
        if (tried->us < best->us)
            *best = *tried;
    }
}

static choice choose(const lh_site_search *s, double limit_us) {
    choice best = {.us = INFINITY}, tried = {0};
    for (tried.set = 1; tried.set < 1u << s->count; tried.set++)
        for (tried.first = 0; tried.first < s->count; tried.first++)
            for (tried.last = 0; tried.last < s->count; tried.last++)
                if (tried.set & 1u << tried.first && tried.set & 1u << tried.last)
                    consider(s, limit_us, &tried, &best);
    return best;
}

/* ---- Stages ---- */

/* How many layers are there, of n both here and there. */
static uint32_t divide(const double *here, const double *there, uint32_t n) {
    uint32_t best = 1;
    for (uint32_t t = 2; t <= n; t++)
        if (here[n - t] + there[t] < here[n - best] + there[best])
            best = t;
    return best;
}

static void deal(const lh_site_search *s, const choice *c, uint32_t layers[S]) {
    uint32_t left = s->layer.count - c->ends;
    if (c->first == c->last) {
        layers[c->first] = c->ends;
        return;
    }
    double first[LH_MAP_LAYERS_MAX + 1];
    memcpy(first, us_of(s, c->first, LH_FILL_FIRST), s->row * sizeof *first);
    first[0] = INFINITY;
    layers[c->last] = divide(first, us_of(s, c->last, LH_FILL_LAST), c->ends);
    layers[c->first] = c->ends - layers[c->last];
    for (uint32_t set = c->set & ~(1u << c->first) & ~(1u << c->last); set; set &= set - 1) {
        uint32_t site = (uint32_t)__builtin_ctz(set);
        layers[site] =
            divide(s->sets + (size_t)(set & (set - 1)) * s->row, us_of(s, site, 0), left);
        left -= layers[site];
    }
}

static bool append_stages(const lh_site_search *s, const choice *c, const uint32_t layers[S],
                          lh_layout *layout) {
    uint32_t way[S], count = 0;
    for (uint32_t set = c->set, at = c->last;;) {
        way[count++] = at;
        if (at == c->first)
            break;
        uint32_t before = s->before[c->first][set][at];
        set &= ~(1u << at);
        at = before;
    }
    layout->stage_count = 0;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t kind =
            (way[i] == c->first ? LH_FILL_FIRST : 0u) | (way[i] == c->last ? LH_FILL_LAST : 0u);
        if (!lh_site_fill_append(fill_of(s, way[i]), kind, layers[way[i]], layout))
            return false;
    }
    return true;
}

/* Of the machines' true order; the figures are of layers of one size. */
static void measure(const lh_site_search *s, lh_part_ring *ring) {
    const lh_fill_layer *layer = &s->layer;
    uint32_t from = LH_PART_GATEWAY, left = layer->count;
    ring->ring_us = ring->busiest_us = 0;
    for (uint32_t i = 0; i < ring->layout.stage_count; i++) {
        lh_layout_stage *stage = &ring->layout.stages[i];
        const lh_part_machine *m = &s->parts->machines[stage->machine];
        const lh_part_hop *hop = &s->parts->hops[from][m->site];
        double us = m->fixed_us + stage->layers.last * (layer->row_mib * m->mib_us + m->layer_us);
        left -= stage->layers.last;
        bool has_head = left == 0 && layer->head_bytes > 0;
        ring->ring_us += us + lh_part_hop_us(hop) + (has_head ? m->head_us : 0);
        ring->busiest_us =
            fmax(ring->busiest_us, fmax(hop->busy_us, us + (has_head ? m->head_busy_us : 0)));
        from = m->site;
    }
    const lh_part_hop *back = &s->parts->hops[from][LH_PART_GATEWAY];
    ring->ring_us += lh_part_hop_us(back);
    ring->busiest_us = fmax(ring->busiest_us, back->busy_us);
}

static bool find_by_sets(lh_site_search *s, double limit_us, lh_layout *layout) {
    uint32_t layers[S] = {0};
    fill_sets(s);
    fill_pairs(s);
    for (uint32_t first = 0; first < s->count; first++)
        find_ways(s, first, limit_us);
    choice best = choose(s, limit_us);
    if (isinf(best.us))
        return false;
    deal(s, &best, layers);
    return append_stages(s, &best, layers, layout);
}

bool lh_site_search_find(void *context, double busiest_max_us, lh_part_ring *ring) {
    lh_site_search *s = context;
    const lh_site_fill *fills[LH_MAP_SITES_MAX];
    if (s->count == 0 || s->layer.count == 0)
        return false;
    s->useful_us = ring->ring_us;
    for (uint32_t i = 0; i < s->count; i++) {
        lh_site_fill_compute(&s->fills[s->looked_at[i]], s->parts, &s->layer, busiest_max_us);
        fills[i] = fill_of(s, i);
    }
    bool is_found =
        s->count <= S ? find_by_sets(s, busiest_max_us, &ring->layout)
                      : lh_site_beam_find(s->beam, fills, s->count, busiest_max_us, &ring->layout);
    if (is_found)
        measure(s, ring);
    return is_found;
}
