/* What a plan is made from: a model, machines at sites, and the links between every two sites.
 * Plain values; where they come from is the caller's affair. Thread: any. */
#pragma once

#include "common/base/name.h"
#include "common/base/status.h"
#include "common/protocol/measurements.h"
#include "common/protocol/worker_report.h"
#include "gateway/plan/kv_need.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_MAP_LAYERS_MAX   1024u /* of any model that workers compute (common/model) */
#define LH_MAP_SITES_MAX    64u
#define LH_MAP_MACHINES_MAX 4096u
#define LH_MAP_TEAMS_MAX    4096u
/* Before the attention's product and behind it, before the down projection and behind it. */
#define LH_LAYER_GATHERS     4u
#define LH_LAYER_GATHERS_MAX 16u

/* What a layer keeps of a position for keys and values: rows of so many numbers. */
typedef struct lh_model_kv_rows {
    uint32_t heads, key_dim, value_dim; /* a row of each for every head */
    bool is_shared; /* heads are one latent row, which every member of a team keeps */
} lh_model_kv_rows;

/* What plans and the fleet need to know of a model (gateway/fleet/model_profile.h). */
typedef struct lh_model_profile {
    uint32_t layers, context, width, vocabulary;
    uint64_t layer_bytes[LH_MAP_LAYERS_MAX]; /* what each one holds */
    /* of them, what one row is multiplied with: less where it goes to some of many experts */
    uint64_t row_bytes[LH_MAP_LAYERS_MAX];
    uint64_t embedding_bytes; /* the first stage holds them too */
    uint64_t head_bytes;      /* the last stage holds them too, and a row that draws meets them */
    /* what machines that compute a layer together give each other of one row, in each layer; 0: it
     * is not known, and none do */
    uint64_t gather_row_bytes;
    uint32_t layer_gathers; /* so many times in each layer; 0: LH_LAYER_GATHERS */
    lh_model_kv_rows kv_rows;
    /* what a stage is to have room for beside its weights: lh_model_profile_want_kv; nothing at
     * first */
    lh_kv_need kv;
} lh_model_profile;

/* Layers [first, last); first == last: none. */
typedef struct lh_map_layers {
    uint32_t first, last;
} lh_map_layers;

/* Any layers: bit i % 64 of word i / 64. */
typedef struct lh_map_layer_set {
    uint64_t words[LH_MAP_LAYERS_MAX / 64];
} lh_map_layer_set;

static inline bool lh_map_layer_set_has(const lh_map_layer_set *set, uint32_t layer) {
    return set->words[layer / 64] >> layer % 64 & 1;
}

static inline void lh_map_layer_set_add(lh_map_layer_set *set, lh_map_layers layers) {
    for (uint32_t i = layers.first; i < layers.last; i++)
        set->words[i / 64] |= UINT64_C(1) << i % 64;
}

typedef struct lh_map_machine {
    char name[LH_NAME_BYTES];
    uint32_t site;
    uint64_t memory_bytes; /* for weights */
    uint64_t kv_bytes;     /* for keys and values, beside that; 0: it is not known */
    uint32_t threads;
    lh_machine_speed start; /* as measured at its start; zeros: not. Plans go by the points below */
    /* what the first layers take of it beside their bytes: of a team each member has the whole
     * embedding; 0 of a machine alone */
    uint64_t first_extra_bytes;
    /* the time of a step of so many rows for each MiB of weights: between and beyond them as in
     * lh_compute_profile */
    uint32_t point_count;
    lh_compute_point points[LH_COMPUTE_POINTS_MAX];
    double attention_us; /* of each row, for each position before it, in each layer */
    double step_us;      /* of each step, outside of the arithmetic */
    /* of the head, where it has been measured: for the first row of a step that draws a token, and
     * for each further one; 0: as for one more matrix */
    double draw_us, draw_more_us;
    lh_map_layers held;      /* in its memory: as one stage they need neither be sent nor loaded */
    lh_map_layer_set cached; /* on its disk: they need not be sent */
    lh_map_layers pinned;    /* it is to have these and no others */
    bool is_excluded;        /* it is not to be used */
    bool can_join;           /* it may compute layers together with others of its site (team.h) */
} lh_map_machine;

/* Machines of one site that compute each layer together (team.h): indices into the map's machines,
 * the one that leads first. Of a machine alone: that one. */
typedef struct lh_team {
    uint32_t count;
    uint32_t members[LH_TEAM_MEMBERS_MAX];
} lh_team;

/* A team that is known, of two or more. */
typedef struct lh_map_team {
    lh_team team;
    bool stands; /* it computes together now */
    /* its times as of a machine, where point_count > 0: it has measured them */
    lh_map_machine measured;
} lh_map_team;

typedef struct lh_map_link {
    double bytes_per_us; /* one way; 0: there is no way */
    double delay_us;     /* one way */
} lh_map_link;

typedef struct lh_fleet_map {
    lh_model_profile model;
    uint32_t site_count, gateway_site;
    char sites[LH_MAP_SITES_MAX][LH_NAME_BYTES];
    /* from the first to the second; of a site to itself: between its machines */
    lh_map_link links[LH_MAP_SITES_MAX][LH_MAP_SITES_MAX];
    lh_map_machine *machines; /* [machine_count], the caller's */
    uint32_t machine_count;
    lh_map_team *teams; /* [team_count], the caller's */
    uint32_t team_count;
} lh_fleet_map;

/* Whether a plan can be made from these numbers. LH_ERR_INVALID: which one is impossible, of which
 * machine or link; LH_ERR_UNAVAILABLE: there is no machine. */
lh_status lh_fleet_map_check(const lh_fleet_map *map, lh_error *error);
static inline bool lh_machine_speed_is_known(const lh_machine_speed *speed) {
    return speed->prompt_us > 0 && speed->token_us > 0;
}

/* Points from the two figures that a machine measures of itself. */
void lh_map_machine_set_speed(lh_map_machine *machine, const lh_machine_speed *speed);
/* The index of a name, or UINT32_MAX. */
uint32_t lh_fleet_map_find_site(const lh_fleet_map *map, const char *name);
uint32_t lh_fleet_map_find_machine(const lh_fleet_map *map, const char *name);
/* What the map knows of this team; NULL: nothing. */
const lh_map_team *lh_fleet_map_find_team(const lh_fleet_map *map, const lh_team *team);
/* Takes the times of `from` alone. */
void lh_map_machine_copy_times(lh_map_machine *machine, const lh_map_machine *from);
