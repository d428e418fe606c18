/* The angle by which each rotated pair of a head turns for one position, for each kind of layers,
 * with every scaling. Thread: made on the compute thread; read-only afterwards. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"

typedef struct lh_rope_table {
    uint32_t half; /* rope_dims / 2 */
    /* 1, or LH_LAYER_KINDS where there are layers with a window, and they turn otherwise */
    uint32_t kinds;
    double magnitude[LH_LAYER_KINDS];  /* of cos and sin */
    double *frequency[LH_LAYER_KINDS]; /* [half] */
} lh_rope_table;

/* LH_ERR_NO_MEMORY; LH_ERR_MALFORMED: a pair would turn by nonsense (base or factor are far out).
 * On an error nothing is held. */
lh_status lh_rope_table_init(lh_rope_table *table, const lh_model_config *config, lh_error *error);
/* By which factor attention's scale grows, twice; 1 where cos and sin do instead. */
double lh_rope_attention_growth(const lh_rope_scaling *scaling);
void lh_rope_table_reset(lh_rope_table *table);
/* Divides the full layers' angles by factors[half] (float32, any alignment).
 * LH_ERR_MALFORMED: one is not positive and finite, or so small that the angle would be no number a
 * pair can turn by. */
lh_status lh_rope_table_divide(lh_rope_table *table, const void *factors, lh_error *error);
