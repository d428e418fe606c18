/* Machines of one site that compute each layer together (worker/compute/stage/division.h), as one
 * machine of a map. Each has a part of every matrix, as large as it is fast, and four times in a
 * layer (k, of some models more often) all give each other what they have computed. For r rows, of
 * one layer:
 *
 *   products   c(r) = 1 / sum of 1 / (what r rows take a member alone)
 *   gathers    g(r) = k (delay + LH_TEAM_GATHER_US)
 *                     + r (members - 1) / members * gather_row_bytes / rate
 *
 * of the site's own link. Few rows wait for both: c + g. Of many, pieces travel while products are
 * computed: max(c, g), and of the lesser one the part that nothing hides
 * (LH_TEAM_EXPOSED_SHARE).
 *
 * Pure; thread: any. */
#pragma once

#include "gateway/plan/fleet_map.h"

#include <math.h>

/* What a gather takes beside the wire: two system calls and somebody who wakes up. Measured by
 * build/tests/mesh over veth: 16 to 30 us. */
#define LH_TEAM_GATHER_US 20.0
/* From so many rows on gathers hide behind products (worker/compute/stage/halves.h), */
#define LH_TEAM_MANY_ROWS 64u
/* but for this share of the lesser of the two: the median of some prompts of 256 and 512 rows, at
 * 150 to 10,000 Mbit/s, on a machine that others used, too (0 to 0.43; docs/BENCHMARKS.md). */
#define LH_TEAM_EXPOSED_SHARE 0.1

/* The memory of a team, member by member: each holds its share, and of the first layers' embedding
 * the whole. */
typedef struct lh_team_memory {
    double bytes;       /* what all have for a stage that has no embedding, */
    double first_bytes; /* and beside one */
} lh_team_memory;

static inline lh_team_memory lh_team_memory_begin(void) {
    return (lh_team_memory){INFINITY, INFINITY};
}
/* times_own: how many times its own share all shares together are. */
static inline void lh_team_memory_add(lh_team_memory *memory, uint64_t bytes, double times_own,
                                      uint64_t embedding_bytes) {
    memory->bytes = fmin(memory->bytes, (double)bytes * times_own);
    memory->first_bytes =
        fmin(memory->first_bytes, fmax((double)bytes - (double)embedding_bytes, 0) * times_own);
}
/* What the first layers take of `bytes` beside theirs and the embedding's. */
static inline uint64_t lh_team_memory_first_extra(const lh_team_memory *memory,
                                                  uint64_t embedding_bytes) {
    return (uint64_t)fmax(memory->bytes - memory->first_bytes - (double)embedding_bytes, 0);
}

/* How often they do so in a layer. */
uint32_t lh_team_layer_gathers(const lh_model_profile *model);
/* What the gathers of one layer take, for so many members and rows. */
double lh_team_gathers_us(const lh_fleet_map *map, uint32_t site, uint32_t members, uint32_t rows);
/* What a row meets of a layer of the model's usual size. */
double lh_team_layer_mib(const lh_model_profile *model);
/* What one layer of the model's usual size takes such a machine. */
double lh_team_layer_us(const lh_model_profile *model, const lh_map_machine *machine,
                        uint32_t rows);
/* The team as one machine, which has its leader's name: what it takes as above, or as it has been
 * measured where the map knows that; the memory that all have for their parts, and for the keys and
 * values of their heads; the layers that all hold. Links and machines of the map have passed its
 * check. */
void lh_team_join(const lh_fleet_map *map, const lh_team *team, lh_map_machine *joined);
