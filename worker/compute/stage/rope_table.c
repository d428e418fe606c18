/* YaRN (arXiv:2309.00071): a dimension that turns often within the context of the training keeps
 * its angles, one that turns seldom has them divided by the factor as with linear scaling, and
 * between lies a ramp over the dimensions. */
#include "worker/compute/stage/rope_table.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TWO_PI 0x1.921fb54442d18p2
/* A pair turns by 1 for a position at most where nothing is scaled; far above it, angles lose their
 * meaning, and in the end do not fit the integers that they are reduced with. */
#define FREQUENCY_MAX 1024.0

/* The (fractional) number of the pair that turns so often within the original context. */
static double pair_of_turns(const lh_rope_scaling *scaling, uint32_t dims, double turns) {
    double log_ratio = lh_log_f64(scaling->original_context / (turns * TWO_PI));
    return dims * log_ratio / (2 * lh_log_f64(scaling->base));
}

static void stretch(double *frequency, uint32_t dims, const lh_rope_scaling *scaling) {
    double low = fmax(floor(pair_of_turns(scaling, dims, scaling->beta_fast)), 0);
    double high = fmin(ceil(pair_of_turns(scaling, dims, scaling->beta_slow)), dims - 1.0);
    for (uint32_t i = 0; i < dims / 2; i++) {
        double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        frequency[i] = frequency[i] / scaling->factor * ramp + frequency[i] * (1 - ramp);
    }
}

static void fill(double *frequency, uint32_t dims, const lh_rope_scaling *scaling) {
    lh_rope_frequencies(frequency, dims, scaling->base);
    if (scaling->is_yarn) {
        stretch(frequency, dims, scaling);
        return;
    }
    for (uint32_t i = 0; i < dims / 2; i++)
        frequency[i] /= scaling->factor;
}

/* YaRN lets cos and sin grow by 1 + ln(factor) / 10, which sharpens attention. */
static double magnitude_of(const lh_rope_scaling *scaling) {
    double growth = scaling->is_yarn && scaling->factor > 1 && scaling->attention_growth == 0
                        ? 1 + 0.1 * lh_log_f64(scaling->factor)
                        : 1;
    return growth * scaling->magnitude;
}

double lh_rope_attention_growth(const lh_rope_scaling *scaling) {
    return scaling->attention_growth > 0
               ? 1 + scaling->attention_growth * lh_log_f64(scaling->factor)
               : 1;
}

static lh_status check(const lh_rope_table *table, lh_error *error) {
    for (uint32_t kind = 0; kind < table->kinds; kind++) {
        for (uint32_t i = 0; i < table->half; i++) {
            if (!(table->frequency[kind][i] >= 0 && table->frequency[kind][i] <= FREQUENCY_MAX)) {
                return lh_fail(error, LH_ERR_MALFORMED,
                               "rope: pair %u would turn by %g for each position; look at the base "
                               "and the scaling factors",
                               i, table->frequency[kind][i]);
            }
        }
    }
    return LH_OK;
}

lh_status lh_rope_table_init(lh_rope_table *table, const lh_model_config *config, lh_error *error) {
    *table = (lh_rope_table){
        .half = config->rope_dims / 2,
        .kinds = config->window > 0 && !config->windows_turn_alike ? LH_LAYER_KINDS : 1};
    for (uint32_t kind = 0; kind < table->kinds; kind++) {
        table->magnitude[kind] = magnitude_of(&config->rope[kind]);
        table->frequency[kind] = calloc(table->half, sizeof(double));
        if (!table->frequency[kind]) {
            lh_rope_table_reset(table);
            return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for rope frequencies");
        }
        fill(table->frequency[kind], config->rope_dims, &config->rope[kind]);
    }
    lh_status status = check(table, error);
    if (status != LH_OK)
        lh_rope_table_reset(table);
    return status;
}

void lh_rope_table_reset(lh_rope_table *table) {
    for (uint32_t kind = 0; kind < LH_LAYER_KINDS; kind++)
        free(table->frequency[kind]);
    *table = (lh_rope_table){0};
}

lh_status lh_rope_table_divide(lh_rope_table *table, const void *factors, lh_error *error) {
    for (uint32_t i = 0; i < table->half; i++) {
        float factor;
        memcpy(&factor, (const char *)factors + i * sizeof factor, sizeof factor);
        if (!(factor > 0) || !isfinite(factor)) {
            return lh_fail(error, LH_ERR_MALFORMED, "GGUF tensor of rope factors: factor %u is %g",
                           i, (double)factor);
        }
        table->frequency[LH_LAYER_FULL][i] /= (double)factor;
    }
    return check(table, error);
}
