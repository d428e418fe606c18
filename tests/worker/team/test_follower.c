/* A first member that forges: what it orders and gathers is changed on its way, with checksums that
 * are right. Whatever comes, the follower ends with a status or goes on, and its stage is of use
 * afterwards. An argument is how many rounds there are of each model. */
#include "worker/team/follower.h"

#include "common/base/crc32c.h"
#include "common/protocol/mask_code.h"
#include "common/protocol/step.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/mapped_weights.h"
#include "tests/worker/support/mesh_group.h"
#include "worker/mesh/mesh_gather.h"
#include "worker/team/order_code.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 21, STEPS_MAX = 4, SEQUENCES = 3, STEPS = 12, WAIT_MS = 40, MEMBERS = 2 };

static uint32_t rounds = 12;

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(uint64_t *state, uint32_t end) {
    return (uint32_t)(next_random(state) % end);
}

/* ---- The forger ---- */

typedef struct forger {
    lh_mesh_step finishing;
    uint32_t finished;
    uint64_t random;
    /* the gather that was opened last */
    uint8_t *opened;
    size_t opened_bytes;
} forger;

static bool is_forged(forger *f, uint32_t one_of) {
    return below(&f->random, one_of) == 0;
}

static uint32_t odd_value(forger *f, uint32_t value) {
    static const uint32_t values[] = {0,          1,          2,          15,         16,
                                      17,         ROWS_MAX,   127,        128,        129,
                                      0x7f800000, 0x7fc00000, 0x7fffffff, 0x80000000, UINT32_MAX};
    const uint32_t count = sizeof values / sizeof values[0], pick = below(&f->random, count + 3);
    if (pick < count)
        return values[pick];
    return pick == count ? value + 1 : pick == count + 1 ? value - 1 : (uint32_t)f->random;
}

/* Behind the head of an order is a frame of a step: its checksums are made right again. */
static void seal(uint8_t *order, size_t length) {
    enum { ORDER_HEAD = 8, FRAME_HEAD = 16 };
    if (length < ORDER_HEAD + FRAME_HEAD ||
        (order[0] != LH_ORDER_BEGIN && order[0] != LH_ORDER_TAKE_MASKS))
        return;
    uint8_t *frame = order + ORDER_HEAD;
    uint32_t payload = (uint32_t)(length - ORDER_HEAD - FRAME_HEAD);
    memcpy(frame + 4, &payload, sizeof payload);
    uint32_t crc = lh_crc32c(0, frame + FRAME_HEAD, payload);
    memcpy(frame + 8, &crc, sizeof crc);
    crc = lh_crc32c(0, frame, FRAME_HEAD - 4);
    memcpy(frame + 12, &crc, sizeof crc);
}

static void change_words(forger *f, uint8_t *bytes, size_t length) {
    for (uint32_t i = 1 + below(&f->random, 2); i > 0 && length >= sizeof(uint32_t); i--) {
        const size_t at = 4 * (size_t)below(&f->random, (uint32_t)(length / 4));
        uint32_t value;
        memcpy(&value, bytes + at, sizeof value);
        value = odd_value(f, value);
        memcpy(bytes + at, &value, sizeof value);
    }
}

static lh_status post_bytes(forger *f, const uint8_t *bytes, size_t length, lh_error *error) {
    void *frame;
    lh_status status = lh_mesh_open(f->finishing.mesh, length, &frame, error);
    if (status != LH_OK)
        return status;
    memcpy(frame, bytes, length);
    return lh_mesh_post_order(f->finishing.mesh, error);
}

static lh_status order(void *context, const lh_stage_order *what, lh_error *error) {
    forger *f = context;
    size_t length = lh_order_bytes(what);
    uint8_t *bytes = calloc(1, length);
    assert_int_equal(lh_order_encode(what, bytes, NULL), LH_OK);
    uint32_t times = 1;
    if (is_forged(f, 6)) {
        const uint32_t how = below(&f->random, 8);
        times = how == 0 ? 0 : how == 1 ? 2 : 1;
        if (how == 2)
            length -= below(&f->random, (uint32_t)length);
        else if (how > 2)
            change_words(f, bytes, length);
        seal(bytes, length);
    }
    if (what->kind == LH_ORDER_FINISH)
        f->finishing.step = f->finished++;
    lh_status status = LH_OK;
    for (; times > 0 && status == LH_OK; times--)
        status = post_bytes(f, bytes, length, error);
    free(bytes);
    return status;
}

static lh_status open_gather(void *context, uint32_t number, size_t length, void **bytes,
                             lh_error *error) {
    forger *f = context;
    const lh_gather own = lh_mesh_gather(&f->finishing);
    lh_status status = own.open(own.context, number, length, bytes, error);
    f->opened = status == LH_OK ? *bytes : NULL;
    f->opened_bytes = length;
    return status;
}

static lh_status post_gather(void *context, uint32_t number, lh_error *error) {
    forger *f = context;
    const lh_gather own = lh_mesh_gather(&f->finishing);
    if (is_forged(f, 8))
        change_words(f, f->opened, f->opened_bytes);
    return own.post(own.context, number, error);
}

static lh_status take_gather(void *context, uint32_t number, uint32_t member, size_t length,
                             const void **bytes, lh_error *error) {
    forger *f = context;
    const lh_gather own = lh_mesh_gather(&f->finishing);
    return own.take(own.context, number, member, length, bytes, error);
}

static lh_gather forged_gather(void *context) {
    return (lh_gather){context, open_gather, post_gather, take_gather};
}

static uint32_t no_times(void *context, lh_gather_times *times, uint32_t count) {
    (void)context, (void)times, (void)count;
    return 0;
}

/* ---- What it is asked ---- */

static void ignore_shard(void *context, const lh_stage_shard *shard) {
    (void)context, (void)shard;
}

static void ignore_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    (void)context, (void)segment, (void)part;
}

static lh_status give_shards(lh_stage_step *step, uint32_t rows, uint32_t width, uint64_t *random) {
    lh_status status = LH_OK;
    float *values = malloc((size_t)rows * width * sizeof *values);
    for (uint32_t i = 0; i < rows * width; i++)
        values[i] = (float)below(random, 1000) / 500 - 1;
    for (uint32_t half = 0; half < 2 && status == LH_OK; half++) {
        const lh_stage_shard shard = {
            .rows = rows, .first_column = half * width / 2, .columns = width / 2, .values = values};
        status = lh_stage_accept(step, &shard, NULL);
    }
    free(values);
    return status;
}

/* One step of some rows of a sequence that has so many. */
static lh_status run_step(lh_stage *stage, uint64_t sequence, uint32_t first, uint32_t rows,
                          uint64_t *random) {
    static const lh_sampling draw = {
        .temperature = 0.9f, .top_p = 1, .repetition_penalty = 1, .seed = 5, .want_digest = true};
    const lh_stage_output output = {.on_shard = ignore_shard, .on_answer = ignore_answer};
    const bool is_last = lh_stage_made_with(stage)->range.last == lh_stage_config(stage)->layers;
    const lh_step_segment segment = {.sequence = sequence,
                                     .first_position = first,
                                     .rows = rows,
                                     .ask.draws = is_last,
                                     .ask.sampling = draw};
    const uint32_t width = lh_stage_config(stage)->width;
    uint32_t tokens[ROWS_MAX];
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = below(random, lh_stage_config(stage)->vocabulary);
    const lh_batch batch = {.rows = rows,
                            .tokens = tokens,
                            .segment_count = 1,
                            .segments = &segment,
                            .cut = lh_step_cut_evenly(width, 3)};
    lh_stage_step *step;
    lh_status status = lh_stage_begin(stage, &batch, &step, NULL);
    if (status != LH_OK)
        return status;
    if (lh_stage_made_with(stage)->range.first > 0)
        status = give_shards(step, rows, width, random);
    if (status == LH_OK)
        status = lh_stage_finish(step, &output, NULL);
    lh_stage_end(step);
    return status;
}

static lh_status give_masks(lh_stage *stage, uint64_t number) {
    const uint32_t vocabulary = lh_stage_config(stage)->vocabulary;
    const uint64_t words[64] = {UINT64_MAX, 7};
    uint8_t code[4096];
    assert_true(lh_mask_code_words(vocabulary) <= 64);
    const lh_step_mask mask = {.number = number,
                               .vocabulary = vocabulary,
                               .code = code,
                               .code_bytes = (uint32_t)lh_mask_encode(words, vocabulary, code)};
    return lh_stage_take_masks(stage, &(lh_step_masks){.count = 1, .list = &mask}, NULL);
}

/* Steps of some sequences, and what comes between them, until one fails. */
static void lead(lh_stage *stage, uint64_t *random) {
    uint32_t lengths[SEQUENCES] = {0};
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < STEPS && status == LH_OK; i++) {
        const uint32_t sequence = below(random, SEQUENCES), rows = 1 + below(random, ROWS_MAX);
        const lh_step_truncation kept = {sequence, lengths[sequence]};
        switch (below(random, 8)) {
        case 0:
            lh_stage_truncate(stage, sequence, 0);
            lengths[sequence] = 0;
            break;
        case 1:
            status = give_masks(stage, i + 1);
            break;
        case 2:
            lh_stage_drop_masks(stage);
            break;
        case 3:
            if (lengths[sequence] == 0)
                break;
            status = lh_stage_resync_kv(stage, &kept, 1, NULL);
            memset(lengths, 0, sizeof lengths);
            lengths[sequence] = kept.length;
            break;
        default:
            if (lengths[sequence] + rows > 100)
                break;
            status = run_step(stage, sequence, lengths[sequence], rows, random);
            lengths[sequence] += rows;
        }
    }
}

/* ---- Two members ---- */

typedef struct member {
    lh_thread_pool *pool;
    lh_stage *stage;
    lh_mesh_options options;
    lh_mesh *mesh;
    pthread_t thread;
    lh_status formed, followed;
} member;

static void build(member *m, uint32_t number, const uint8_t *file, lh_gguf *gguf,
                  const lh_model_config *config, lh_layer_range range) {
    const lh_weight_source source = mapped_weights(file);
    lh_stage_options options = {.range = range,
                                .kv_bytes = 2u << 20,
                                .context = 128,
                                .rows_max = ROWS_MAX,
                                .steps_max = STEPS_MAX,
                                .membership = {MEMBERS, number, {1, 1}}};
    lh_error error;
    if (lh_kernels_select(NULL, &options.kernels, &error) != LH_OK ||
        lh_thread_pool_create(1, &m->pool, &error) != LH_OK)
        fail_msg("%s", error.message);
    options.pool = m->pool;
    if (lh_stage_create(gguf, config, &source, &options, NULL, NULL, &m->stage, &error) != LH_OK)
        fail_msg("%s", error.message);
}

static void *form(void *argument) {
    member *m = argument;
    m->formed = lh_mesh_create(&m->options, &m->mesh, NULL);
    return NULL;
}

static void *follow(void *argument) {
    member *m = argument;
    m->followed = lh_follower_run(m->stage, m->mesh, NULL);
    return NULL;
}

/* Returns whether the follower found something to refuse. */
static bool play(member members[MEMBERS], uint64_t seed) {
    mesh_group group;
    forger f = {.random = seed};
    mesh_group_begin(&group, MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i].options = group.members[i].options;
        members[i].options.wait_ms = WAIT_MS;
        assert_int_equal(pthread_create(&members[i].thread, NULL, form, &members[i]), 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        pthread_join(members[i].thread, NULL);
        assert_int_equal(members[i].formed, LH_OK);
    }
    assert_int_equal(pthread_create(&members[1].thread, NULL, follow, &members[1]), 0);
    f.finishing.mesh = members[0].mesh;
    const lh_stage_leading leading = {&f, order, forged_gather, no_times}, nobody = {0};
    lh_stage_lead(members[0].stage, &leading);
    lead(members[0].stage, &seed);
    lh_stage_lead(members[0].stage, &nobody);
    lh_mesh_end(members[0].mesh);
    pthread_join(members[1].thread, NULL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        lh_mesh_destroy(members[i].mesh);
        members[i].mesh = NULL;
        lh_stage_reset(members[i].stage);
        assert_int_equal(lh_kv_cache_pages_free(lh_stage_kv(members[i].stage)),
                         lh_kv_cache_pages_total(lh_stage_kv(members[i].stage)));
    }
    mesh_group_end(&group);
    return members[1].followed != LH_OK && members[1].followed != LH_ERR_CLOSED;
}

static void play_model(const tiny_llama *described, bool is_first) {
    size_t length;
    uint8_t *file = tiny_llama_bytes(described, &length);
    lh_gguf *gguf;
    lh_model_config config;
    member members[MEMBERS] = {0};
    uint32_t refused = 0;
    assert_int_equal(lh_gguf_parse(file, length, length, &gguf, NULL), LH_OK);
    assert_int_equal(lh_model_config_read(gguf, &config, NULL), LH_OK);
    const lh_layer_range range = {is_first ? 0 : 1, config.layers};
    for (uint32_t i = 0; i < MEMBERS; i++)
        build(&members[i], i, file, gguf, &config, range);
    for (uint32_t i = 0; i < rounds; i++)
        refused += play(members, 1000 * i + is_first);
    assert_true(refused > 0 || rounds < 8);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        lh_stage_destroy(members[i].stage);
        lh_thread_pool_destroy(members[i].pool);
    }
    lh_gguf_destroy(gguf);
    free(file);
}

static void forged_orders_do_no_harm(void **state) {
    (void)state;
    const tiny_llama dense = tiny_llama_wide(tiny_llama_default());
    play_model(&dense, true);
    play_model(&dense, false);
}

/* Which experts a row goes through is made of what the first member has gathered. */
static void forged_orders_do_no_harm_to_a_mixture(void **state) {
    (void)state;
    const tiny_llama mixture = tiny_llama_wide(tiny_llama_of("qwen3moe"));
    play_model(&mixture, true);
    play_model(&mixture, false);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_orders_do_no_harm),
        cmocka_unit_test(forged_orders_do_no_harm_to_a_mixture),
    };
    if (count > 1)
        rounds = (uint32_t)strtoul(arguments[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
