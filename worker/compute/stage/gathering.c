/* Own bytes go out when a gather begins; the others' come in one by one. */
#include "worker/compute/stage/gathering.h"

#include "worker/compute/stage/work_parts.h"

#include <assert.h>

lh_status lh_member_status(const lh_member *member, lh_error *error) {
    return member->status == LH_OK ? LH_OK
                                   : lh_fail(error, member->status, "%s", member->error.message);
}

typedef struct lh_coding {
    const lh_gathering *gathering;
    lh_span columns;
    uint8_t *out;      /* encodes to here, or else */
    const uint8_t *in; /* decodes from here */
    uint32_t parts;
} lh_coding;

static void code_part(void *context, uint32_t part, uint32_t thread) {
    const lh_coding *c = context;
    const lh_gathering *g = c->gathering;
    const lh_span rows = lh_part_of(g->rows, LH_PART_ROWS, part, c->parts);
    const lh_activations x = lh_packed_rows(g->packed, g->kind, rows);
    const size_t before = lh_activations_encoded_bytes(g->kind, rows.begin, c->columns);
    (void)thread;
    if (c->out)
        lh_activations_encode(c->out + before, &x, c->columns);
    else
        lh_activations_decode(&x, c->columns, c->in + before);
}

/* Rows of packed activations are encoded or decoded by all threads. */
static void code(lh_coding coding) {
    const lh_gathering *g = coding.gathering;
    const lh_compute *compute = g->member->compute;
    coding.parts =
        lh_parts_of_small(compute, lh_units_in(g->rows, LH_PART_ROWS),
                          (uint64_t)g->rows * (coding.columns.end - coding.columns.begin));
    lh_thread_pool_run(compute->pool, coding.parts, code_part, &coding);
}

static size_t bytes_of(const lh_gathering *g, lh_span columns) {
    return g->y ? (size_t)g->rows * (columns.end - columns.begin) * sizeof(float)
                : lh_activations_encoded_bytes(g->kind, g->rows, columns);
}

static void write_own(const lh_gathering *g, void *bytes) {
    const lh_compute *compute = g->member->compute;
    const lh_span columns = g->spans->of[g->member->division->own];
    const lh_outgoing outgoing = {g->y,        g->rows, (uint32_t)g->stride, columns, bytes,
                                  LH_WIRE_F32, NULL};
    if (!g->y) {
        code((lh_coding){.gathering = g, .columns = columns, .out = bytes});
        return;
    }
    compute->ops->send(compute, 0, &outgoing);
    compute->ops->sent(compute, 0, &outgoing);
}

static void read_piece(const lh_gathering *g, lh_span columns, const void *bytes) {
    const lh_compute *compute = g->member->compute;
    if (g->y)
        compute->ops->put_rows(compute, g->y + columns.begin, g->stride * sizeof(float), bytes,
                               (columns.end - columns.begin) * sizeof(float), g->rows);
    else
        code((lh_coding){.gathering = g, .columns = columns, .in = bytes});
}

static lh_gathering begin(lh_gathering g) {
    lh_member *member = g.member;
    const lh_gather *gather = member->gather;
    void *bytes;
    if (member->division->members < 2 || member->status != LH_OK)
        return g;
    assert(gather && g.rows > 0);
    g.number = member->number++;
    const size_t length = bytes_of(&g, lh_division_own(member->division, g.spans));
    member->status = gather->open(gather->context, g.number, length, &bytes, &member->error);
    if (member->status != LH_OK)
        return g;
    write_own(&g, bytes);
    lh_slowdown_settle(lh_thread_pool_slowdown(member->compute->pool));
    member->status = gather->post(gather->context, g.number, &member->error);
    return g;
}

lh_gathering lh_gather_floats(lh_member *member, const lh_division_spans *spans, float *y,
                              size_t stride, uint32_t rows) {
    return begin(
        (lh_gathering){.member = member, .spans = spans, .rows = rows, .y = y, .stride = stride});
}

lh_gathering lh_gather_packed(lh_member *member, const lh_division_spans *spans,
                              const lh_packed *packed, const lh_matrix *reader, uint32_t rows) {
    return begin((lh_gathering){
        .member = member,
        .spans = spans,
        .rows = rows,
        .packed = packed,
        .kind = lh_activation_kind_for(reader->dtype, member->compute->activations)});
}

lh_gathering lh_gather_nothing(lh_member *member, lh_span columns) {
    return (lh_gathering){.member = member, .whole = columns};
}

bool lh_gathering_next(lh_gathering *g, lh_span *columns) {
    lh_member *member = g->member;
    const uint32_t from = g->next++;
    const void *bytes;
    if (member->status != LH_OK || from >= (g->spans ? member->division->members : 1))
        return false;
    *columns = g->spans ? g->spans->of[from] : g->whole;
    if (!g->spans || from == member->division->own)
        return true;
    member->status = member->gather->take(member->gather->context, g->number, from,
                                          bytes_of(g, *columns), &bytes, &member->error);
    if (member->status != LH_OK)
        return false;
    read_piece(g, *columns, bytes);
    return true;
}

void lh_gathering_complete(lh_gathering *gathering) {
    lh_span columns;
    while (lh_gathering_next(gathering, &columns))
        ;
}
