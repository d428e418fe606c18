/* Rows go in groups, which bounds the memory for logits: a group reads the head's weights once. Of
 * a group, a device draws the rows that want no more than a token; the logits of the others, which
 * come behind them, travel to the host. */
#include "worker/compute/stage/head.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group as it is computed: first the rows that the device draws. */
typedef struct lh_head_group {
    lh_head_row rows[LH_HEAD_ROWS];
    uint32_t places[LH_HEAD_ROWS]; /* of the rows in their order */
    uint32_t count, drawn;
} lh_head_group;

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
    uint32_t *tokens; /* [group_rows], the host's: what the device has drawn */
    float *read;      /* where the sampler finds the logits: of the row behind those drawn */
    size_t logits_stride;
    int64_t *sums;         /* [width] */
    char *sampler_scratch; /* threads * sampler_bytes */
    size_t sampler_bytes;
    lh_row_answer answers[LH_HEAD_ROWS];
    lh_token_logprob tops[LH_HEAD_ROWS][LH_TOP_LOGPROBS_MAX];
    lh_token_score scores[LH_HEAD_ROWS];
    lh_status statuses[LH_HEAD_ROWS];
    lh_error errors[LH_HEAD_ROWS];
};

/* ---- Asks ---- */

lh_status lh_head_check(const lh_row_ask *ask, uint32_t rows, uint32_t vocabulary,
                        lh_error *error) {
    const lh_row_scoring *scoring = &ask->scoring;
    bool scores_last = scoring->rows > 0 && scoring->first_row + scoring->rows == rows;
    if (scores_last && scoring->next_token >= vocabulary) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "token %u, to be scored, is not in the vocabulary of %u",
                       scoring->next_token, vocabulary);
    }
    return ask->draws ? lh_sampling_check(&ask->sampling, vocabulary, error) : LH_OK;
}

uint32_t lh_head_rows_of(const lh_row_ask *ask, uint32_t segment, uint32_t first, uint32_t rows,
                         const uint32_t *tokens, lh_head_row *list) {
    const lh_row_scoring *scoring = &ask->scoring;
    uint32_t count = 0;
    for (uint32_t i = 0; i < scoring->rows; i++) {
        uint32_t row = first + scoring->first_row + i;
        bool is_last = row + 1 == first + rows;
        list[count++] = (lh_head_row){.row = row,
                                      .segment = segment,
                                      .work = LH_HEAD_SCORES,
                                      .ask = ask,
                                      .token = is_last ? scoring->next_token : tokens[row + 1]};
    }
    for (uint32_t i = 0; i < ask->pooling.rows; i++)
        list[count++] = (lh_head_row){.row = first + ask->pooling.first_row + i,
                                      .segment = segment,
                                      .work = LH_HEAD_POOLS,
                                      .ask = ask};
    if (ask->draws)
        list[count++] = (lh_head_row){
            .row = first + rows - 1, .segment = segment, .work = LH_HEAD_DRAWS, .ask = ask};
    return count;
}

/* ---- Life ---- */

static bool allocate_outgoing(lh_head *head) {
    const lh_compute *compute = head->compute;
    size_t width = head->config->width,
           widest = width > head->logits_stride ? width : head->logits_stride;
    head->outgoing =
        compute->ops->allocate_host(compute, head->group_rows * widest * sizeof(float));
    head->outgoing_scale = compute->ops->allocate_host(compute, head->group_rows * sizeof(float));
    head->outgoing_gain = compute->ops->allocate_host(compute, width * sizeof(float));
    head->tokens = compute->ops->allocate_host(compute, head->group_rows * sizeof *head->tokens);
    return head->outgoing && head->outgoing_scale && head->outgoing_gain && head->tokens;
}

lh_status lh_head_create(const lh_model_config *config, const lh_parameters *weights,
                         const lh_compute *compute, uint32_t rows, lh_head **out, lh_error *error) {
    lh_head *head = calloc(1, sizeof *head);
    if (!head)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for the output head");
    uint32_t group = rows < LH_HEAD_ROWS ? rows : LH_HEAD_ROWS;
    head->config = config;
    head->weights = weights;
    head->compute = compute;
    head->group_rows = group;
    head->logits_stride = lh_row_stride(config->vocabulary);
    head->sampler_bytes = lh_aligned_bytes(lh_sampler_scratch_bytes(config->vocabulary));
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
    compute->ops->release_host(compute, head->tokens);
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

/* ---- Logits ---- */

/* Where the host can read and change rows [count][width] of a device's array. */
static float *bring(const lh_head *head, float *rows, uint32_t count, uint32_t width, float *host) {
    const lh_compute *compute = head->compute;
    const lh_outgoing outgoing = {rows, count, width, {0, width}, host, LH_WIRE_F32, NULL};
    compute->ops->send(compute, 0, &outgoing);
    return compute->ops->sent(compute, 0, &outgoing).values;
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

/* logits[count][vocabulary] = norm(h) W, by the operations of every norm and product (layer.c):
 * those of the member's own tokens, and then those of all. */
static lh_status compute_logits(lh_head *head, lh_member *member, const float *h,
                                const lh_head_row *rows, uint32_t count, lh_error *error) {
    const lh_compute *compute = head->compute;
    const lh_division_spans *tokens = &member->division->tokens;
    const lh_span all = {0, head->config->width};
    const lh_matrix *matrix = &head->weights->head;
    const lh_product product = {*matrix,
                                head->logits + lh_division_own(member->division, tokens).begin,
                                head->logits_stride,
                                {0, matrix->outputs},
                                {0, count},
                                NULL};
    prepare_norm(head, h, rows, count);
    if (head->config->logit_scale != 1)
        compute->ops->scale(compute, head->scale, 1, count, 1, head->config->logit_scale);
    compute->ops->products(compute, &product, 1, &head->normed, all, false, head->scale);
    lh_gathering logits =
        lh_gather_floats(member, tokens, head->logits, head->logits_stride, count);
    lh_gathering_complete(&logits);
    return lh_member_status(member, error);
}

static float *device_logits(const lh_head *head, uint32_t row) {
    return head->logits + row * head->logits_stride;
}

static lh_status bring_logits(lh_head *head, uint32_t first, uint32_t count, lh_error *error) {
    if (count > 0)
        head->read = bring(head, device_logits(head, first), count, (uint32_t)head->logits_stride,
                           head->outgoing);
    return head->compute->ops->settle(head->compute, error);
}

/* ---- Draws of the device ---- */

static bool is_for_device(const lh_head *head, const lh_head_row *row,
                          const lh_head_events *events) {
    return head->compute->ops->draw && head->config->vocabulary <= LH_CANDIDATES_MAX &&
           !events->on_logits && row->work == LH_HEAD_DRAWS && !row->lacks_mask &&
           !lh_sampling_wants_report(&row->ask->sampling);
}

static void add_to_group(lh_head_group *group, const lh_head_row *rows, uint32_t row) {
    group->places[row] = group->count;
    group->rows[group->count++] = rows[row];
}

static void sort_rows(lh_head_group *group, const lh_head *head, const lh_head_row *rows,
                      uint32_t count, const lh_head_events *events) {
    group->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_for_device(head, &rows[i], events))
            add_to_group(group, rows, i);
    group->drawn = group->count;
    for (uint32_t i = 0; i < count; i++)
        if (!is_for_device(head, &rows[i], events))
            add_to_group(group, rows, i);
}

static void draw_rows(lh_head *head, const lh_head_group *group) {
    lh_drawn_row rows[LH_HEAD_ROWS];
    if (group->drawn == 0)
        return;
    for (uint32_t i = 0; i < group->drawn; i++)
        rows[i] = (lh_drawn_row){&group->rows[i].ask->sampling, group->rows[i].mask};
    head->compute->ops->draw(head->compute, head->logits, head->logits_stride,
                             head->config->vocabulary, rows, group->drawn, head->tokens);
}

/* The sampler says what is wrong with the logits of a row, as the device has changed them. */
static lh_status refuse_row(lh_head *head, uint32_t row, lh_error *error) {
    const lh_sampling plain = {.temperature = 0};
    lh_row_answer none = {0};
    lh_status status = bring_logits(head, row, 1, error);
    if (status == LH_OK)
        status = lh_sample(head->compute->kernels, head->read, head->config->vocabulary, &plain,
                           NULL, head->sampler_scratch, &none, error);
    return status != LH_OK ? status
                           : lh_fail(error, LH_ERR_INTERNAL,
                                     "sampling: nothing was drawn of logits "
                                     "that are sound");
}

static lh_status take_draws(lh_head *head, uint32_t count, lh_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (head->tokens[i] == LH_NO_DRAW)
            return refuse_row(head, i, error);
        head->answers[i] = (lh_row_answer){.token = head->tokens[i]};
        head->statuses[i] = LH_OK;
    }
    return LH_OK;
}

/* ---- Draws of the host, and scores ---- */

typedef struct lh_read_arguments {
    lh_head *head;
    const lh_head_group *group;
} lh_read_arguments;

static float *host_logits(const lh_head *head, const lh_head_group *group, uint32_t row) {
    return head->read + (row - group->drawn) * head->logits_stride;
}

static lh_status read_logits(lh_head *head, const lh_head_group *group, uint32_t number,
                             uint32_t thread) {
    const lh_kernels *kernels = head->compute->kernels;
    const lh_head_row *row = &group->rows[number];
    uint32_t vocabulary = head->config->vocabulary;
    float *logits = host_logits(head, group, number);
    void *scratch = head->sampler_scratch + thread * head->sampler_bytes;
    lh_error *error = &head->errors[number];
    lh_row_answer *answer = &head->answers[number];
    *answer = (lh_row_answer){.token = LH_STEP_NO_TOKEN, .top = head->tops[number]};
    if (row->work == LH_HEAD_SCORES) {
        answer->score_count = 1;
        answer->scores = &head->scores[number];
        return lh_logits_score(kernels, logits, vocabulary, row->token, row->ask->scoring.top,
                               scratch, answer->scores, error);
    }
    return row->lacks_mask ? LH_OK
                           : lh_sample(kernels, logits, vocabulary, &row->ask->sampling, row->mask,
                                       scratch, answer, error);
}

static void read_row(void *context, uint32_t part, uint32_t thread) {
    const lh_read_arguments *a = context;
    const uint32_t row = a->group->drawn + part;
    a->head->statuses[row] = read_logits(a->head, a->group, row, thread);
}

/* ---- Groups ---- */

static lh_status report_answers(const lh_head *head, const lh_head_group *group,
                                const lh_head_events *events, lh_error *error) {
    for (uint32_t i = 0; i < group->count; i++) {
        const uint32_t place = group->places[i];
        if (head->statuses[place] != LH_OK)
            return lh_fail(error, head->statuses[place], "%s", head->errors[place].message);
        events->on_answer(events->context, group->rows[place].segment, &head->answers[place]);
    }
    return LH_OK;
}

static lh_status run_group(lh_head *head, lh_member *member, const float *h,
                           const lh_head_row *rows, uint32_t count, const lh_head_events *events,
                           lh_error *error) {
    lh_head_group group;
    lh_read_arguments arguments = {head, &group};
    sort_rows(&group, head, rows, count, events);
    lh_status status = compute_logits(head, member, h, group.rows, count, error);
    if (status != LH_OK)
        return status;
    draw_rows(head, &group);
    status = bring_logits(head, group.drawn, count - group.drawn, error);
    for (uint32_t i = 0; i < count && status == LH_OK && events->on_logits; i++)
        events->on_logits(events->context, rows[i].segment, host_logits(head, &group, i));
    if (status == LH_OK)
        lh_thread_pool_run(head->compute->pool, count - group.drawn, read_row, &arguments);
    if (status == LH_OK)
        status = take_draws(head, group.drawn, error);
    return status == LH_OK ? report_answers(head, &group, events, error) : status;
}

static lh_status run_groups(lh_head *head, lh_member *member, const float *h,
                            const lh_head_row *rows, uint32_t count, const lh_head_events *events,
                            lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t first = 0; first < count && status == LH_OK; first += head->group_rows) {
        uint32_t left = count - first;
        status = run_group(head, member, h, rows + first,
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

static lh_status pool_segment(lh_head *head, const float *h, const lh_head_row *rows,
                              uint32_t count, const lh_head_events *events, lh_error *error) {
    bool is_good = true;
    memset(head->sums, 0, head->config->width * sizeof *head->sums);
    for (uint32_t first = 0; first < count; first += head->group_rows) {
        uint32_t left = count - first;
        uint32_t group = left < head->group_rows ? left : head->group_rows;
        lh_status status = pool_group(head, h, rows + first, group, &is_good, error);
        if (status != LH_OK)
            return status;
    }
    if (!is_good)
        return lh_fail(error, LH_ERR_INVALID,
                       "pooling: the model gave a hidden state that is no number, or beyond %g",
                       (double)LH_POOLED_VALUE_MAX);
    const lh_row_answer answer = {
        .token = LH_STEP_NO_TOKEN, .pooled_count = head->config->width, .pooled = head->sums};
    events->on_answer(events->context, rows->segment, &answer);
    return LH_OK;
}

/* ---- All rows ---- */

/* A mask that is named is kept until no step names it any more; but a peer may err. */
static void find_masks(const lh_mask_store *masks, lh_head_row *rows, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t mask = rows[i].work == LH_HEAD_DRAWS ? rows[i].ask->sampling.mask : 0;
        rows[i].mask = lh_mask_store_find(masks, mask);
        rows[i].lacks_mask = mask != 0 && !rows[i].mask;
    }
}

/* The rows from the first on that go together: those of one segment that is pooled, or all up to
 * the next one that is. */
static uint32_t count_together(const lh_head_row *rows, uint32_t count) {
    bool pools = rows[0].work == LH_HEAD_POOLS;
    uint32_t end = 1;
    while (end < count && (rows[end].work == LH_HEAD_POOLS) == pools &&
           (!pools || rows[end].segment == rows[0].segment))
        end++;
    return end;
}

lh_status lh_head_run(lh_head *head, lh_member *member, const float *h, lh_head_row *rows,
                      uint32_t count, const lh_mask_store *masks, const lh_head_events *events,
                      lh_error *error) {
    lh_status status = LH_OK;
    find_masks(masks, rows, count);
    for (uint32_t first = 0, together; first < count && status == LH_OK; first += together) {
        together = count_together(rows + first, count - first);
        status = rows[first].work == LH_HEAD_POOLS
                     ? pool_segment(head, h, rows + first, together, events, error)
                     : run_groups(head, member, h, rows + first, together, events, error);
    }
    return status;
}
