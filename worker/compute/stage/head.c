/* Rows go in groups, which bounds the memory for logits: a group reads the head's weights once. */
#include "worker/compute/stage/head.h"

#include "worker/compute/stage/aligned_array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that share one pass over the head's weights. More would cost vocabulary * 4 bytes each and
 * save little: the pass is bound by arithmetic from here on. */
#define GROUP_ROWS 16u

struct lh_head {
    const lh_model_config *config;
    const lh_parameters *weights;
    const lh_compute *compute;
    uint32_t group_rows;
    float *h;         /* [group_rows][width]: the rows gathered */
    lh_packed normed; /* [group_rows][width] */
    float *squares;   /* [group_rows][16] */
    float *scale;     /* [group_rows] */
    float *logits;    /* [group_rows][logits_stride] */
    /* the host's, where a device's are sent to: logits or rows of h, their scales, the norm's
     * gain */
    float *outgoing, *outgoing_scale, *outgoing_gain;
    float *read; /* where the sampler finds the logits */
    size_t logits_stride;
    int64_t *sums;         /* [width] */
    char *sampler_scratch; /* threads * sampler_bytes */
    size_t sampler_bytes;
    lh_sample_result results[GROUP_ROWS];
    lh_token_score scores[GROUP_ROWS];
    lh_status statuses[GROUP_ROWS];
    lh_error errors[GROUP_ROWS];
};

static bool allocate_outgoing(lh_head *head) {
    const lh_compute *compute = head->compute;
    size_t width = head->config->width,
           widest = width > head->logits_stride ? width : head->logits_stride;
    head->outgoing =
        compute->ops->allocate_host(compute, head->group_rows * widest * sizeof(float));
    head->outgoing_scale = compute->ops->allocate_host(compute, head->group_rows * sizeof(float));
    head->outgoing_gain = compute->ops->allocate_host(compute, width * sizeof(float));
    return head->outgoing && head->outgoing_scale && head->outgoing_gain;
}

lh_status lh_head_create(const lh_model_config *config, const lh_parameters *weights,
                         const lh_compute *compute, uint32_t rows, lh_head **out, lh_error *error) {
    lh_head *head = calloc(1, sizeof *head);
    if (!head)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for the output head");
    uint32_t group = rows < GROUP_ROWS ? rows : GROUP_ROWS;
    head->config = config;
    head->weights = weights;
    head->compute = compute;
    head->group_rows = group;
    head->logits_stride = lh_row_stride(config->vocabulary);
    head->sampler_bytes = (lh_sampler_scratch_bytes(config->vocabulary) + 63) / 64 * 64;
    head->sampler_scratch =
        lh_aligned_array_allocate(lh_thread_pool_size(compute->pool), head->sampler_bytes);
    head->sums = calloc(config->width, sizeof *head->sums);
    if (!head->sampler_scratch || !head->sums ||
        !lh_packed_add(compute, &head->normed, &weights->head, group) ||
        !lh_floats_allocate(compute, &head->h, group, config->width) ||
        !lh_floats_allocate(compute, &head->squares, group, LH_LANES) ||
        !lh_floats_allocate(compute, &head->scale, group, 1) ||
        !lh_floats_allocate(compute, &head->logits, group, head->logits_stride) ||
        !allocate_outgoing(head)) {
        lh_head_destroy(head);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for the logits of %u rows", group);
    }
    *out = head;
    return LH_OK;
}

void lh_head_destroy(lh_head *head) {
    if (!head)
        return;
    const lh_compute *compute = head->compute;
    free(head->sums);
    free(head->sampler_scratch);
    compute->ops->release_host(compute, head->outgoing_gain);
    compute->ops->release_host(compute, head->outgoing_scale);
    compute->ops->release_host(compute, head->outgoing);
    compute->ops->release(compute, head->logits);
    compute->ops->release(compute, head->scale);
    compute->ops->release(compute, head->squares);
    compute->ops->release(compute, head->h);
    lh_packed_reset(compute, &head->normed);
    free(head);
}

/* Where the host can read and change rows [count][width] of a device's array. */
static float *bring(const lh_head *head, float *rows, uint32_t count, uint32_t width, float *host) {
    const lh_compute *compute = head->compute;
    const lh_outgoing outgoing = {rows, count, width, {0, width}, host};
    compute->ops->send(compute, 0, &outgoing);
    return compute->ops->sent(compute, 0, &outgoing);
}

/* Gathers the rows, packs them and finds their scales, by the operations of every norm. */
static void prepare_norm(lh_head *head, const float *h, const lh_head_row *rows, uint32_t count) {
    const lh_compute *compute = head->compute;
    uint32_t width = head->config->width;
    const lh_span all = {0, width};
    for (uint32_t i = 0; i < count; i++)
        compute->ops->copy(compute, head->h + (size_t)i * width, h + (size_t)rows[i].row * width,
                           width * sizeof *h);
    compute->ops->norm(compute, &head->normed, count, all, head->h, width,
                       head->weights->output_norm, head->squares, head->scale,
                       head->config->rms_epsilon);
}

/* logits[count][vocabulary] = norm(h) W, by the operations of every norm and product (layer.c). */
static lh_status compute_logits(lh_head *head, const float *h, const lh_head_row *rows,
                                uint32_t count, lh_error *error) {
    const lh_compute *compute = head->compute;
    const lh_span all = {0, head->config->width};
    const lh_matrix *matrix = &head->weights->head;
    const lh_product product = {*matrix,    head->logits, head->logits_stride, {0, matrix->outputs},
                                {0, count}, NULL};
    prepare_norm(head, h, rows, count);
    if (head->config->logit_scale != 1)
        compute->ops->scale(compute, head->scale, 1, count, 1, head->config->logit_scale);
    compute->ops->products(compute, &product, 1, &head->normed, all, false, head->scale);
    head->read = bring(head, head->logits, count, (uint32_t)head->logits_stride, head->outgoing);
    return compute->ops->settle(compute, error);
}

typedef struct lh_read_arguments {
    lh_head *head;
    const lh_head_row *rows;
} lh_read_arguments;

static lh_status read_logits(lh_head *head, const lh_head_row *row, uint32_t number,
                             uint32_t thread) {
    const lh_kernels *kernels = head->compute->kernels;
    uint32_t vocabulary = head->config->vocabulary;
    float *logits = head->read + number * head->logits_stride;
    void *scratch = head->sampler_scratch + thread * head->sampler_bytes;
    lh_error *error = &head->errors[number];
    if (!row->sampling)
        return lh_logits_score(kernels, logits, vocabulary, row->token, row->top, scratch,
                               &head->scores[number], error);
    if (!row->lacks_mask)
        return lh_sample(kernels, logits, vocabulary, row->sampling, row->mask, scratch,
                         &head->results[number], error);
    head->results[number] = (lh_sample_result){.token = LH_STEP_NO_TOKEN};
    return LH_OK;
}

static void read_row(void *context, uint32_t row, uint32_t thread) {
    const lh_read_arguments *a = context;
    a->head->statuses[row] = read_logits(a->head, &a->rows[row], row, thread);
}

static lh_status run_group(lh_head *head, const float *h, const lh_head_row *rows, uint32_t first,
                           uint32_t count, const lh_head_events *events, lh_error *error) {
    lh_read_arguments arguments = {head, rows};
    lh_status status = compute_logits(head, h, rows, count, error);
    if (status != LH_OK)
        return status;
    for (uint32_t i = 0; i < count && events->on_logits; i++)
        events->on_logits(events->context, first + i, head->read + i * head->logits_stride);
    lh_thread_pool_run(head->compute->pool, count, read_row, &arguments);
    for (uint32_t i = 0; i < count; i++) {
        if (head->statuses[i] != LH_OK)
            return lh_fail(error, head->statuses[i], "%s", head->errors[i].message);
        if (rows[i].sampling)
            events->on_result(events->context, first + i, &head->results[i]);
        else
            events->on_score(events->context, first + i, &head->scores[i]);
    }
    return LH_OK;
}

lh_status lh_head_run(lh_head *head, const float *h, const lh_head_row *rows, uint32_t count,
                      const lh_head_events *events, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t first = 0; first < count && status == LH_OK; first += head->group_rows) {
        uint32_t left = count - first;
        status = run_group(head, h, rows + first, first,
                           left < head->group_rows ? left : head->group_rows, events, error);
    }
    return status;
}

/* ---- Pooling ---- */

/* What is pooled of a group, where the host reads it. */
typedef struct lh_pooled_rows {
    const float *h, *scale, *gain; /* [count][width], [count], [width] */
} lh_pooled_rows;

/* One rounding for each value, whatever it is added to: sums of integers do not depend on the
 * order, so that neither chunks nor splits can be told from them. */
static bool add_normed(lh_head *head, const lh_pooled_rows *rows, uint32_t row) {
    uint32_t width = head->config->width;
    const float *h = rows->h + (size_t)row * width;
    bool is_good = true;
    for (uint32_t c = 0; c < width; c++) {
        float value = h[c] * rows->gain[c] * rows->scale[row];
        bool fits = value >= -LH_POOLED_VALUE_MAX && value <= LH_POOLED_VALUE_MAX;
        is_good &= fits;
        head->sums[c] += llrint(ldexp(fits ? (double)value : 0, LH_POOLED_UNIT_BITS));
    }
    return is_good;
}

static lh_status pool_group(lh_head *head, const float *h, const lh_head_row *rows, uint32_t count,
                            bool *is_good, lh_error *error) {
    uint32_t width = head->config->width;
    prepare_norm(head, h, rows, count);
    const lh_pooled_rows pooled = {
        bring(head, head->h, count, width, head->outgoing),
        bring(head, head->scale, 1, count, head->outgoing_scale),
        bring(head, (float *)head->weights->output_norm, 1, width, head->outgoing_gain)};
    lh_status status = head->compute->ops->settle(head->compute, error);
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        *is_good &= add_normed(head, &pooled, i);
    return status;
}

lh_status lh_head_pool(lh_head *head, const float *h, const lh_head_row *rows, uint32_t count,
                       const int64_t **sums, lh_error *error) {
    bool is_good = true;
    memset(head->sums, 0, head->config->width * sizeof *head->sums);
    for (uint32_t first = 0; first < count; first += head->group_rows) {
        uint32_t left = count - first;
        uint32_t group = left < head->group_rows ? left : head->group_rows;
        lh_status status = pool_group(head, h, rows + first, group, &is_good, error);
        if (status != LH_OK)
            return status;
    }
    *sums = head->sums;
    return is_good ? LH_OK
                   : lh_fail(error, LH_ERR_INVALID,
                             "pooling: the model gave a hidden state that is no number, or beyond "
                             "%g",
                             (double)LH_POOLED_VALUE_MAX);
}
