/* The recurrence of cost_model.h, chunk by chunk from hop to hop. */
#include "gateway/cost/cost_model.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <math.h>

/* Ranges wide enough for any machine: outside of them a number is a mistake. */
#define US_MAX        1e12 /* eleven days */
#define BYTES_MAX     1e15
#define RATE_MIN      1e-6 /* a byte in a second */
#define DEPTH_UNBOUND UINT32_MAX

/* ---- Checking ---- */

static bool is_within(double value, double low, double high) {
    return isfinite(value) && value >= low && value <= high;
}

static bool has_points(const lh_compute_profile *p) {
    if (p->point_count > LH_COMPUTE_POINTS_MAX)
        return false;
    for (uint32_t i = 0; i < p->point_count; i++) {
        if (!is_within(p->points[i].us, 0, US_MAX) || p->points[i].rows == 0)
            return false;
        if (i > 0 && p->points[i].rows <= p->points[i - 1].rows)
            return false;
    }
    return true;
}

static lh_status check_stage(const lh_compute_profile *p, uint32_t number, lh_error *error) {
    if (p->point_count == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "stage %u has not measured its compute time",
                       number);
    if (!has_points(p))
        return lh_fail(error, LH_ERR_INVALID,
                       "stage %u: the points of its compute profile are impossible", number);
    if (!is_within(p->take_share, 0, 1) || !is_within(p->give_share, 0, 1) ||
        p->take_share + p->give_share > 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "stage %u: the shares of its compute profile are impossible", number);
    if (!is_within(p->us_per_row_position, 0, US_MAX) || !is_within(p->shard_us, 0, US_MAX) ||
        !is_within(p->step_us, 0, US_MAX) || !is_within(p->draw_us, 0, US_MAX) ||
        !is_within(p->draw_more_us, 0, US_MAX))
        return lh_fail(error, LH_ERR_INVALID,
                       "stage %u: a time of its compute profile is impossible", number);
    return LH_OK;
}

static lh_status check_hop(const lh_cost_hop *hop, uint32_t number, lh_error *error) {
    if (hop->bytes_per_us == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "the rate of hop %u has not been measured",
                       number);
    if (!is_within(hop->bytes_per_us, RATE_MIN, BYTES_MAX) ||
        !is_within(hop->delay_us, 0, US_MAX) || !is_within(hop->ready_bytes, 0, BYTES_MAX))
        return lh_fail(error, LH_ERR_INVALID, "hop %u: its rate, delay or window is impossible",
                       number);
    if (!is_within(hop->step_bytes, 0, BYTES_MAX) ||
        !is_within(hop->step_row_bytes, 0, BYTES_MAX) ||
        !is_within(hop->draw_bytes, 0, BYTES_MAX) || !is_within(hop->row_bytes, 0, BYTES_MAX) ||
        !is_within(hop->shard_bytes, 0, BYTES_MAX))
        return lh_fail(error, LH_ERR_INVALID, "hop %u: its bytes are impossible", number);
    return LH_OK;
}

lh_status lh_cost_chain_check(const lh_cost_chain *chain, lh_error *error) {
    if (chain->stage_count == 0 || chain->stage_count > LH_COST_STAGES_MAX)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "there is no chain");
    if (chain->width == 0 || chain->width > LH_STEP_WIDTH_MAX)
        return lh_fail(error, LH_ERR_INVALID, "a width of %u columns is impossible", chain->width);
    lh_status status = LH_OK;
    for (uint32_t s = 0; s < chain->stage_count && status == LH_OK; s++)
        status = check_stage(&chain->stages[s], s, error);
    for (uint32_t h = 0; h <= chain->stage_count && status == LH_OK; h++)
        status = check_hop(&chain->hops[h], h, error);
    return status;
}

/* ---- Stages ---- */

static double between(const lh_compute_point *a, const lh_compute_point *b, uint32_t rows) {
    double slope = (b->us - a->us) / (double)(b->rows - a->rows);
    return a->us + slope * ((double)rows - (double)a->rows);
}

static double points_us(const lh_compute_profile *p, uint32_t rows) {
    uint32_t i = 0;
    assert(p->point_count > 0);
    while (i < p->point_count && p->points[i].rows < rows)
        i++;
    if (i == 0)
        return p->points[0].us;
    if (i < p->point_count)
        return between(&p->points[i - 1], &p->points[i], rows);
    const lh_compute_point *last = &p->points[i - 1];
    if (i == 1)
        return last->us * rows / last->rows;
    return lh_max_f64(last->us, between(last - 1, last, rows));
}

static double attention_us(const lh_compute_profile *p, uint32_t position, uint32_t rows) {
    return p->us_per_row_position * (double)rows * ((double)position + ((double)rows - 1) / 2);
}

double lh_cost_stage_us(const lh_compute_profile *stage, uint32_t position, uint32_t rows) {
    return points_us(stage, rows) + attention_us(stage, position, rows);
}

/* Chunks of one length follow each other. */
static double remembered_points_us(const lh_compute_profile *stage, struct lh_cost_memo *memo,
                                   uint32_t rows) {
    if (memo->rows != rows) {
        memo->rows = rows;
        memo->us = points_us(stage, rows);
    }
    return memo->us;
}

/* ---- Hops ---- */

static void begin_wire(const lh_cost_hop *hop, struct lh_cost_wire *wire) {
    double held_bytes = hop->bytes_per_us * 2 * hop->delay_us;
    bool is_warm = hop->ready_bytes == 0 || hop->ready_bytes >= held_bytes;
    *wire = (struct lh_cost_wire){.window = is_warm ? 0 : hop->ready_bytes, .begun_us = -1};
}

/* The earliest time at which `sent_bytes` can have left a connection whose window has still to
 * open. */
static double slow_start_us(const lh_cost_hop *hop, struct lh_cost_wire *wire) {
    double round_trip_us = 2 * hop->delay_us;
    while (wire->sent_bytes > wire->round_bytes + wire->window &&
           wire->window < hop->bytes_per_us * round_trip_us) {
        wire->round_bytes += wire->window;
        wire->round_us += round_trip_us;
        wire->window *= 2;
    }
    return wire->begun_us + wire->round_us +
           (wire->sent_bytes - wire->round_bytes) / hop->bytes_per_us;
}

/* When the other end has bytes that are ready at `at_us`. */
static double carry(const lh_cost_hop *hop, struct lh_cost_wire *wire, double at_us, double bytes) {
    wire->free_us = lh_max_f64(at_us, wire->free_us) + bytes / hop->bytes_per_us;
    return wire->free_us + hop->delay_us;
}

/* The same for a shard. Manifests are too small to open a window: a cold connection begins with the
 * first shard. */
static double carry_shard(const lh_cost_hop *hop, struct lh_cost_wire *wire, double at_us,
                          double bytes) {
    double start_us = lh_max_f64(at_us, wire->free_us), there_us = carry(hop, wire, at_us, bytes);
    if (wire->window == 0)
        return there_us;
    if (wire->begun_us < 0)
        wire->begun_us = start_us;
    wire->sent_bytes += bytes;
    wire->free_us = lh_max_f64(wire->free_us, slow_start_us(hop, wire));
    return wire->free_us + hop->delay_us;
}

/* ---- A prompt ---- */

/* The column shards of a chunk: how many columns each has, and when it comes to the stage. */
typedef struct shards {
    uint32_t count;
    uint32_t columns[LH_STEP_COLUMN_SHARDS_MAX];
    double us[LH_STEP_COLUMN_SHARDS_MAX];
} shards;

static void cut_columns(const lh_step_cut *cut, uint32_t width, shards *pieces) {
    pieces->count = cut && cut->count ? cut->count : 1;
    assert(pieces->count <= LH_STEP_COLUMN_SHARDS_MAX);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < pieces->count; i++) {
        uint32_t end = i + 1 < pieces->count ? cut->ends[i] : width;
        assert(end > begin || pieces->count == 1);
        pieces->columns[i] = end - begin;
        begin = end;
    }
}

typedef struct passage {
    const lh_cost_chain *chain;
    const lh_cost_schedule *schedule;
    lh_cost_work *work;
    uint32_t position, rows;
    bool is_last_chunk;
} passage;

/* The QKV projection of each shard when it has come; returns when the last one is done. */
static double project_qkv(const passage *p, uint32_t s, double qkv_us, const shards *come) {
    const lh_compute_profile *stage = &p->chain->stages[s];
    double at_us = p->work->stage_free_us[s];
    for (uint32_t i = 0; i < come->count; i++)
        at_us = lh_max_f64(at_us, come->us[i]) + qkv_us * come->columns[i] / p->chain->width +
                (i > 0 ? stage->shard_us : 0);
    return at_us;
}

/* The down projection, shard by shard onto the hop behind it. */
static double project_down(const passage *p, uint32_t s, double at_us, double down_us,
                           shards *gone) {
    const lh_compute_profile *stage = &p->chain->stages[s];
    const lh_cost_hop *hop = &p->chain->hops[s + 1];
    for (uint32_t i = 0; i < gone->count; i++) {
        double share = (double)gone->columns[i] / p->chain->width;
        at_us += down_us * share + (i > 0 ? stage->shard_us : 0);
        gone->us[i] = carry_shard(hop, &p->work->wires[s + 1], at_us,
                                  hop->shard_bytes + hop->row_bytes * p->rows * share);
    }
    return at_us;
}

static double step_bytes(const lh_cost_hop *hop, uint32_t rows) {
    return hop->step_bytes + hop->step_row_bytes * rows;
}

/* One chunk around the ring, from when it may leave; returns when its results are back. */
static double pass(const passage *p, double launch_us) {
    const lh_cost_chain *chain = p->chain;
    lh_cost_work *work = p->work;
    uint32_t last = chain->stage_count - 1;
    double manifest_us =
        carry(&chain->hops[0], &work->wires[0], launch_us, step_bytes(&chain->hops[0], p->rows));
    shards pieces = {.count = 1, .columns = {chain->width}, .us = {manifest_us}};
    for (uint32_t s = 0; s <= last; s++) {
        const lh_compute_profile *compute = &chain->stages[s];
        double points = remembered_points_us(&chain->stages[s], &work->memo[s], p->rows);
        double at_us = project_qkv(p, s, compute->take_share * points, &pieces);
        at_us += compute->step_us + (1 - compute->take_share - compute->give_share) * points +
                 attention_us(compute, p->position, p->rows);
        if (s == last) {
            at_us += compute->give_share * points + (p->is_last_chunk ? compute->draw_us : 0);
            work->stage_free_us[s] = at_us;
            return carry(&chain->hops[s + 1], &work->wires[s + 1], at_us,
                         step_bytes(&chain->hops[s + 1], 0));
        }
        const lh_cost_hop *hop = &chain->hops[s + 1];
        manifest_us = carry(hop, &work->wires[s + 1], manifest_us, step_bytes(hop, p->rows));
        cut_columns(p->schedule->cuts ? &p->schedule->cuts[s] : NULL, chain->width, &pieces);
        work->stage_free_us[s] = project_down(p, s, at_us, compute->give_share * points, &pieces);
    }
    return 0; /* a chain has a stage */
}

double lh_cost_predict_us(const lh_cost_chain *chain, const lh_cost_schedule *schedule,
                          lh_cost_work *work) {
    assert(schedule->count > 0 && schedule->count <= LH_COST_CHUNKS_MAX);
    uint32_t depth = schedule->depth ? schedule->depth : DEPTH_UNBOUND;
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        work->stage_free_us[s] = 0;
        work->memo[s].rows = 0;
    }
    for (uint32_t h = 0; h <= chain->stage_count; h++)
        begin_wire(&chain->hops[h], &work->wires[h]);
    passage p = {chain, schedule, work, schedule->position, 0, false};
    for (uint32_t c = 0; c < schedule->count; c++) {
        p.rows = schedule->rows[c];
        p.is_last_chunk = c + 1 == schedule->count;
        work->back_us[c] = pass(&p, c >= depth ? work->back_us[c - depth] : 0);
        p.position += p.rows;
    }
    return work->back_us[schedule->count - 1];
}

/* ---- Without a schedule ---- */

/* Greatest or added busy times of everything, and the delays. */
typedef struct totals {
    double greatest_us, sum_us, delays_us;
} totals;

static void add_busy(totals *t, double us) {
    t->greatest_us = lh_max_f64(t->greatest_us, us);
    t->sum_us += us;
}

/* A step's head and, between workers, its shards. */
static void add_hop(totals *t, const lh_cost_chain *chain, uint32_t h, uint32_t rows,
                    double head_bytes) {
    const lh_cost_hop *hop = &chain->hops[h];
    bool has_shards = h > 0 && h < chain->stage_count;
    double bytes = head_bytes + (has_shards ? hop->shard_bytes + hop->row_bytes * rows : 0);
    add_busy(t, bytes / hop->bytes_per_us);
    t->delays_us += hop->delay_us;
}

static void add_hops(totals *t, const lh_cost_chain *chain, uint32_t rows) {
    for (uint32_t h = 0; h <= chain->stage_count; h++)
        add_hop(t, chain, h, rows, step_bytes(&chain->hops[h], h < chain->stage_count ? rows : 0));
}

/* What a stage does once in a prompt, or in a step of it. */
static double fixed_us(const lh_cost_chain *chain, uint32_t s, bool samples) {
    bool draws = samples && s + 1 == chain->stage_count;
    return chain->stages[s].step_us + (draws ? chain->stages[s].draw_us : 0);
}

static totals whole(const lh_cost_chain *chain, uint32_t position, uint32_t rows, bool samples) {
    totals t = {0, 0, 0};
    for (uint32_t s = 0; s < chain->stage_count; s++)
        add_busy(&t,
                 lh_cost_stage_us(&chain->stages[s], position, rows) + fixed_us(chain, s, samples));
    add_hops(&t, chain, rows);
    return t;
}

/* The least that rows can cost in chunks of any lengths: each at the cost of the length that is
 * cheapest per row. Between two points that cost falls or rises all the way, so it is least at one
 * of them, or in one chunk. */
static double least_points_us(const lh_compute_profile *p, uint32_t rows) {
    double least = points_us(p, rows);
    for (uint32_t i = 0; i < p->point_count && p->points[i].rows < rows; i++)
        least = fmin(least, p->points[i].us * rows / p->points[i].rows);
    return least;
}

double lh_cost_busiest_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows) {
    return whole(chain, position, rows, true).greatest_us;
}

double lh_cost_bound_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows) {
    totals t = {0, 0, 0};
    for (uint32_t s = 0; s < chain->stage_count; s++)
        add_busy(&t, least_points_us(&chain->stages[s], rows) +
                         attention_us(&chain->stages[s], position, rows) +
                         fixed_us(chain, s, true));
    add_hops(&t, chain, rows);
    return t.greatest_us + t.delays_us;
}

double lh_cost_off_us(const lh_cost_chain *chain, uint32_t position, uint32_t rows,
                      uint32_t rows_max) {
    double us = 0;
    assert(rows_max > 0);
    while (rows > 0) {
        uint32_t step_rows = lh_min_u32(rows, rows_max);
        totals t = whole(chain, position, step_rows, step_rows == rows);
        us += t.sum_us + t.delays_us;
        position += step_rows;
        rows -= step_rows;
    }
    return us;
}

/* Unlike the rows of a chunk these do not attend to each other. */
static double decode_stage_us(const lh_compute_profile *stage, uint32_t position, uint32_t rows,
                              bool is_last) {
    double us =
        points_us(stage, rows) + stage->us_per_row_position * rows * position + stage->step_us;
    return is_last ? us + stage->draw_us + stage->draw_more_us * (rows - 1) : us;
}

lh_cost_step lh_cost_decode_step(const lh_cost_chain *chain, uint32_t position, uint32_t rows) {
    totals t = {0, 0, 0};
    assert(rows > 0);
    for (uint32_t s = 0; s < chain->stage_count; s++)
        add_busy(&t,
                 decode_stage_us(&chain->stages[s], position, rows, s + 1 == chain->stage_count));
    for (uint32_t h = 0; h <= chain->stage_count; h++)
        add_hop(&t, chain, h, rows, chain->hops[h].step_bytes + chain->hops[h].draw_bytes * rows);
    return (lh_cost_step){.ring_us = t.sum_us + t.delays_us, .busiest_us = t.greatest_us};
}
