/* Own heads are copied to their place in the whole rows, and back when these are normed. */
#include "worker/compute/stage/row_norms.h"

#include "worker/compute/stage/aligned_array.h"

/* Of all members: the last one's end. */
static uint32_t width_of(const lh_division *division, const lh_division_spans *spans) {
    return spans->of[division->members - 1].end;
}

size_t lh_whole_row_floats(const lh_model_config *config, const lh_division *division) {
    return config->norms_whole_rows && division->members > 1
               ? (size_t)width_of(division, &division->queries) +
                     width_of(division, &division->kept)
               : 0;
}

bool lh_whole_rows_init(lh_whole_rows *whole, const lh_model_config *config,
                        const lh_division *division, const lh_compute *compute, uint32_t rows) {
    *whole = (lh_whole_rows){0};
    return lh_whole_row_floats(config, division) == 0 ||
           (lh_floats_allocate(compute, &whole->q, rows, width_of(division, &division->queries)) &&
            lh_floats_allocate(compute, &whole->k, rows, width_of(division, &division->kept)));
}

void lh_whole_rows_reset(lh_whole_rows *whole, const lh_compute *compute) {
    compute->ops->release(compute, whole->k);
    compute->ops->release(compute, whole->q);
    *whole = (lh_whole_rows){0};
}

/* Heads of q, or of k: some of all. */
typedef struct lh_head_rows {
    const lh_division_spans *spans;
    float *own;   /* [rows][those of the member], lh_row_stride apart */
    float *whole; /* [rows][those of all] */
} lh_head_rows;

static lh_gathering gather(lh_member *member, const lh_head_rows *heads, uint32_t rows) {
    const lh_division *division = member->division;
    const lh_compute *compute = member->compute;
    const lh_span own = lh_division_own(division, heads->spans);
    const size_t count = own.end - own.begin, width = width_of(division, heads->spans);
    for (uint32_t row = 0; row < rows; row++)
        compute->ops->copy(compute, heads->whole + row * width + own.begin,
                           heads->own + row * lh_row_stride(count), count * sizeof(float));
    return lh_gather_floats(member, heads->spans, heads->whole, width, rows);
}

static void norm(const lh_member *member, const lh_head_rows *heads, uint32_t rows,
                 const float *gain, float epsilon) {
    const lh_division *division = member->division;
    const lh_compute *compute = member->compute;
    const lh_span own = lh_division_own(division, heads->spans);
    const size_t count = own.end - own.begin;
    const uint32_t width = width_of(division, heads->spans);
    compute->ops->norm_heads(compute, heads->whole, width, rows, 1, width, gain, epsilon);
    for (uint32_t row = 0; row < rows; row++)
        compute->ops->copy(compute, heads->own + row * lh_row_stride(count),
                           heads->whole + (size_t)row * width + own.begin, count * sizeof(float));
}

static void norm_alone(const lh_compute *compute, const lh_model_config *config, uint32_t heads,
                       float *x, uint32_t rows, const float *gain) {
    const uint32_t width = heads * config->head_dim;
    compute->ops->norm_heads(compute, x, lh_row_stride(width), rows, 1, width, gain,
                             config->rms_epsilon);
}

/* Both gathers are under way before the first is waited for. */
void lh_row_norms(const lh_whole_rows *whole, lh_member *member, const lh_model_config *config,
                  uint32_t rows, float *q, const float *q_gain, float *k, const float *k_gain) {
    const lh_division *division = member->division;
    if (division->members < 2) {
        norm_alone(member->compute, config, config->heads, q, rows, q_gain);
        norm_alone(member->compute, config, config->kv_heads, k, rows, k_gain);
        return;
    }
    const lh_head_rows queries = {&division->queries, q, whole->q},
                       keys = {&division->kept, k, whole->k};
    lh_gathering of_queries = gather(member, &queries, rows), of_keys = gather(member, &keys, rows);
    lh_gathering_complete(&of_queries);
    norm(member, &queries, rows, q_gain, config->rms_epsilon);
    lh_gathering_complete(&of_keys);
    norm(member, &keys, rows, k_gain, config->rms_epsilon);
}
