/* Stages of several machines over real sockets: who uses the first one's stage gets the bits that
 * one machine gives, whatever he asks of it. Each member but the first does what is ordered on a
 * thread of its own. */
#include "worker/team/team.h"

#include "common/protocol/mask_code.h"
#include "common/protocol/step.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/mapped_weights.h"
#include "tests/worker/support/mesh_group.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT = 21, DECODED = 3, SEQUENCES = 2, CHUNK = 8, STAGES_MAX = 2, STEPS_MAX = 4 };
enum { DIGESTS = SEQUENCES * (DECODED + 1) };

/* The model's file, and what it says. */
typedef struct model {
    uint8_t *file;
    lh_gguf *gguf;
    lh_model_config config;
} model;

static model model_open(const tiny_llama *described) {
    model m;
    lh_error error;
    size_t length;
    m.file = tiny_llama_bytes(described, &length);
    if (lh_gguf_parse(m.file, length, length, &m.gguf, &error) != LH_OK ||
        lh_model_config_read(m.gguf, &m.config, &error) != LH_OK)
        fail_msg("%s", error.message);
    return m;
}

static void model_close(model *m) {
    lh_gguf_destroy(m->gguf);
    free(m->file);
}

static tiny_llama four_layers(void) {
    tiny_llama described = tiny_llama_wide(tiny_llama_default());
    described.layers = 4;
    return described;
}

/* ---- Teams ---- */

typedef struct machine {
    struct group *group;
    uint32_t number;
    lh_thread_pool *pool;
    lh_stage *stage;
    lh_team *team; /* NULL: it has not formed, or is alone */
    lh_status status;
    lh_error error;
    _Atomic int failures;
    pthread_t thread;
} machine;

/* Those who compute one stage. */
typedef struct group {
    mesh_group mesh;
    uint32_t count;
    int64_t forming_ms;
    _Atomic bool is_cancelled;
    machine machines[LH_MEMBERS_MAX];
} group;

static void on_failed(void *context) {
    machine *m = context;
    atomic_fetch_add(&m->failures, 1);
}

static void machine_build(machine *m, const model *of, lh_layer_range range, size_t kv_bytes) {
    const lh_weight_source source = mapped_weights(of->file);
    lh_stage_options options = {
        .range = range,
        .kv_bytes = kv_bytes,
        .context = 128,
        .rows_max = PROMPT,
        .steps_max = STEPS_MAX,
        .membership = {m->group->count, m->number, {3, 1, 2, 1}},
    };
    lh_error error;
    if (lh_kernels_select(NULL, &options.kernels, &error) != LH_OK ||
        lh_thread_pool_create(1, &m->pool, &error) != LH_OK)
        fail_msg("%s", error.message);
    options.pool = m->pool;
    if (lh_stage_create(of->gguf, &of->config, &source, &options, NULL, NULL, &m->stage, &error) !=
        LH_OK)
        fail_msg("%s", error.message);
}

static void *form(void *context) {
    machine *m = context;
    const mesh_member *member = &m->group->mesh.members[m->number];
    const lh_team_options options = {.identity = member->options.identity,
                                     .addresses = m->group->mesh.addresses,
                                     .listener = member->options.listener,
                                     .forming_ms = m->group->forming_ms,
                                     .cancelled = &m->group->is_cancelled,
                                     .on_failed = on_failed,
                                     .context = m};
    m->status = lh_team_form(&options, m->stage, &m->team, &m->error);
    return NULL;
}

/* kv_bytes: of each machine; `absent` does not come (count: all do). The team rests. */
static group *group_form(const model *of, uint32_t count, lh_layer_range range,
                         const size_t *kv_bytes, uint32_t absent) {
    group *g = calloc(1, sizeof *g);
    g->count = count;
    g->forming_ms = absent < count ? 100 : 20000;
    mesh_group_begin(&g->mesh, count);
    for (uint32_t i = 0; i < count; i++) {
        g->machines[i].group = g;
        g->machines[i].number = i;
        machine_build(&g->machines[i], of, range, kv_bytes ? kv_bytes[i] : 2u << 20);
    }
    for (uint32_t i = 0; i < count && count > 1; i++)
        if (i != absent)
            pthread_create(&g->machines[i].thread, NULL, form, &g->machines[i]);
    for (uint32_t i = 0; i < count && count > 1; i++)
        if (i != absent)
            pthread_join(g->machines[i].thread, NULL);
    for (uint32_t i = 0; i < count && absent == count; i++)
        if (g->machines[i].status != LH_OK)
            fail_msg("%s", g->machines[i].error.message);
    return g;
}

static void group_begin(group *g) {
    for (uint32_t i = 0; i < g->count && g->count > 1; i++)
        assert_int_equal(lh_team_begin(g->machines[i].team, NULL), LH_OK);
}

static void group_end(group *g) {
    lh_stage_destroy(g->machines[0].stage);
    for (uint32_t i = 0; i < g->count; i++)
        lh_team_destroy(g->machines[i].team);
    for (uint32_t i = 0; i < g->count; i++) {
        if (i > 0)
            lh_stage_destroy(g->machines[i].stage);
        lh_thread_pool_destroy(g->machines[i].pool);
    }
    mesh_group_end(&g->mesh);
    free(g);
}

/* ---- A model, run ---- */

/* Its stages, each of a team; and what has come of it. */
typedef struct chain {
    const model *of;
    uint32_t stages;
    group *groups[STAGES_MAX];
    lh_stage_step *steps[STAGES_MAX];
    lh_status status;
    uint32_t count;
    uint64_t digests[DIGESTS];
} chain;

static void pass_shard(void *context, const lh_stage_shard *shard) {
    chain *c = context;
    c->status = lh_stage_accept(c->steps[1], shard, NULL);
}

static void keep_digest(void *context, uint32_t segment, const lh_row_answer *result) {
    chain *c = context;
    (void)segment;
    assert_true(c->count < DIGESTS);
    c->digests[c->count++] = result->digest ^ result->token;
}

static chain chain_start(const model *of, uint32_t stages, uint32_t members) {
    chain c = {.of = of, .stages = stages};
    for (uint32_t i = 0; i < stages; i++) {
        const lh_layer_range range = {of->config.layers * i / stages,
                                      of->config.layers * (i + 1) / stages};
        c.groups[i] = group_form(of, members, range, NULL, members);
        group_begin(c.groups[i]);
    }
    return c;
}

static void chain_end(chain *c) {
    for (uint32_t i = 0; i < c->stages; i++)
        group_end(c->groups[i]);
}

static lh_stage *first_of(const chain *c, uint32_t stage) {
    return c->groups[stage]->machines[0].stage;
}

/* All stages are asked to begin first: shards go from one to the next while it computes. */
static lh_status run(chain *c, const lh_step_segment *segments, uint32_t count, uint32_t seed) {
    uint32_t tokens[PROMPT];
    lh_batch batch = {.tokens = tokens,
                      .segment_count = count,
                      .segments = segments,
                      .cut = lh_step_cut_evenly(c->of->config.width, 3)};
    const lh_stage_output output = {.context = c, .on_shard = pass_shard, .on_answer = keep_digest};
    for (uint32_t i = 0; i < count; i++)
        batch.rows += segments[i].rows;
    for (uint32_t i = 0; i < batch.rows; i++)
        tokens[i] = (seed + i) * 97 % c->of->config.vocabulary;
    lh_status status = LH_OK;
    uint32_t begun = 0;
    c->status = LH_OK;
    for (; begun < c->stages && status == LH_OK; begun += status == LH_OK)
        status = lh_stage_begin(first_of(c, begun), &batch, &c->steps[begun], NULL);
    for (uint32_t i = 0; i < c->stages && status == LH_OK; i++) {
        status = lh_stage_finish(c->steps[i], &output, NULL);
        status = status == LH_OK ? c->status : status;
    }
    while (begun > 0)
        lh_stage_end(c->steps[--begun]);
    return status;
}

static const lh_sampling draw = {
    .temperature = 0.9f, .top_p = 1, .repetition_penalty = 1, .seed = 5, .want_digest = true};

/* Prompts in chunks, whose last row draws, and then rows of both sequences together. */
static void generate(chain *c) {
    c->count = 0;
    for (uint64_t sequence = 0; sequence < SEQUENCES; sequence++) {
        for (uint32_t first = 0; first < PROMPT; first += CHUNK) {
            const uint32_t rows = PROMPT - first < CHUNK ? PROMPT - first : CHUNK;
            const lh_step_segment segment = {.sequence = sequence,
                                             .first_position = first,
                                             .rows = rows,
                                             .ask.draws = first + rows == PROMPT,
                                             .ask.sampling = draw};
            assert_int_equal(run(c, &segment, 1, (uint32_t)sequence * 7 + first), LH_OK);
        }
    }
    for (uint32_t i = 0; i < DECODED; i++) {
        lh_step_segment segments[SEQUENCES];
        for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++)
            segments[sequence] = (lh_step_segment){.sequence = sequence,
                                                   .first_position = PROMPT + i,
                                                   .rows = 1,
                                                   .ask.draws = true,
                                                   .ask.sampling = draw};
        assert_int_equal(run(c, segments, SEQUENCES, 1000 + i), LH_OK);
    }
    assert_int_equal(c->count, DIGESTS);
}

static void forget_all(const chain *c) {
    for (uint32_t i = 0; i < c->stages; i++)
        lh_stage_reset(first_of(c, i));
}

static void expected_of(const model *of, uint64_t digests[DIGESTS]) {
    chain alone = chain_start(of, 1, 1);
    generate(&alone);
    memcpy(digests, alone.digests, sizeof alone.digests);
    chain_end(&alone);
}

static void a_team_gives_the_bits_of_one_machine(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{1, 2}, {1, 4}, {2, 3}}; /* stages, members of each */
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    uint64_t expected[DIGESTS];
    expected_of(&of, expected);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        chain c = chain_start(&of, shapes[i][0], shapes[i][1]);
        for (int again = 0; again < 2; again++) {
            generate(&c);
            assert_memory_equal(c.digests, expected, sizeof expected);
            forget_all(&c);
        }
        chain_end(&c);
    }
    model_close(&of);
}

/* ---- Before it is needed ---- */

static void *follow(void *context) {
    machine *m = context;
    m->status = lh_team_follow(m->team, &m->error);
    return NULL;
}

/* The first one begins, the others follow on threads of the caller's. */
static chain rehearsal_start(const model *of, uint32_t members) {
    chain c = {.of = of, .stages = 1};
    group *g = group_form(of, members, (lh_layer_range){0, of->config.layers}, NULL, members);
    c.groups[0] = g;
    for (uint32_t i = 1; i < members; i++)
        pthread_create(&g->machines[i].thread, NULL, follow, &g->machines[i]);
    assert_int_equal(lh_team_begin(g->machines[0].team, NULL), LH_OK);
    return c;
}

static void assert_follower(group *g, uint32_t member, lh_status expected) {
    pthread_join(g->machines[member].thread, NULL);
    assert_int_equal(g->machines[member].status, expected);
}

static void a_team_rests_until_it_is_needed(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    uint64_t expected[DIGESTS];
    expected_of(&of, expected);
    chain c = rehearsal_start(&of, 3);
    group *g = c.groups[0];
    generate(&c);
    forget_all(&c);
    assert_int_equal(lh_team_rest(g->machines[0].team, NULL), LH_OK);
    assert_follower(g, 1, LH_OK);
    assert_follower(g, 2, LH_OK);
    group_begin(g);
    generate(&c);
    assert_memory_equal(c.digests, expected, sizeof expected);
    chain_end(&c);
    model_close(&of);
}

/* Others find out, and whoever has lost the team can build another one with the same stage. */
static void a_member_may_be_lost_before_it_is_needed(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    chain c = rehearsal_start(&of, 3);
    group *g = c.groups[0];
    const lh_step_segment segment = {.sequence = 9, .rows = 1};
    lh_team_end(g->machines[1].team);
    assert_int_equal(run(&c, &segment, 1, 1), LH_ERR_CLOSED);
    assert_follower(g, 1, LH_ERR_CANCELLED);
    assert_follower(g, 2, LH_ERR_CLOSED);
    assert_int_equal(lh_team_rest(g->machines[0].team, NULL), LH_ERR_CLOSED);
    lh_stage_reset(g->machines[0].stage); /* orders nothing */
    chain_end(&c);
    model_close(&of);
}

/* ---- What else is asked of a stage ---- */

/* Sequences that are shortened, freed, forked and carried over to a new epoch. */
static uint64_t digest_of_changes(chain *c) {
    lh_stage *stage = first_of(c, 0);
    const lh_step_truncation kept[] = {{.sequence = 2, .length = 70}};
    lh_step_segment segment = {.sequence = 1};
    for (; segment.first_position < 80; segment.first_position += segment.rows) {
        segment.rows = 16;
        assert_int_equal(run(c, &segment, 1, segment.first_position), LH_OK);
    }
    lh_step_segment fork = {
        .sequence = 2, .first_position = 64, .rows = 8, .forks = true, .source = 1};
    assert_int_equal(run(c, &fork, 1, 500), LH_OK);
    lh_stage_truncate(stage, 1, 64);
    segment.first_position = 64;
    segment.rows = 2;
    segment.ask.draws = true;
    segment.ask.sampling = draw;
    c->count = 0;
    assert_int_equal(run(c, &segment, 1, 900), LH_OK);
    lh_stage_truncate(stage, 1, 0);
    assert_int_equal(lh_stage_resync_kv(stage, kept, 1, NULL), LH_OK);
    fork.forks = false;
    fork.first_position = 70;
    fork.ask.draws = true;
    fork.ask.sampling = draw;
    assert_int_equal(run(c, &fork, 1, 600), LH_OK);
    assert_int_equal(c->count, 2);
    return c->digests[0] * 31 + c->digests[1];
}

static void sequences_change_on_all(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    chain alone = chain_start(&of, 1, 1), team = chain_start(&of, 1, 3);
    uint64_t expected = digest_of_changes(&alone);
    assert_int_equal(digest_of_changes(&team), expected);
    chain_end(&team);
    chain_end(&alone);
    model_close(&of);
}

/* One token alone may be drawn. */
static void masks_go_to_all(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    uint64_t words[8] = {0};
    uint8_t code[128];
    words[3] = 1u << 9;
    size_t code_bytes = lh_mask_encode(words, of.config.vocabulary, code);
    const lh_step_mask mask = {7, of.config.vocabulary, (uint32_t)code_bytes, code};
    const lh_step_masks masks = {.count = 1, .list = &mask};
    lh_step_segment segment = {.sequence = 1, .rows = 4, .ask.draws = true, .ask.sampling = draw};
    segment.ask.sampling.mask = 7;
    segment.ask.sampling.want_digest = false;
    chain team = chain_start(&of, 1, 2);
    assert_int_equal(lh_stage_take_masks(first_of(&team, 0), &masks, NULL), LH_OK);
    assert_int_equal(run(&team, &segment, 1, 3), LH_OK);
    assert_int_equal(team.digests[0], 3 * 64 + 9);
    lh_stage_drop_masks(first_of(&team, 0));
    chain_end(&team);
    model_close(&of);
}

/* What the first stage refuses, all refuse, and go on. */
static void what_is_refused_is_so_on_all(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    uint64_t expected[DIGESTS];
    float values[192] = {0};
    const uint32_t token = 1;
    const lh_step_segment segment = {.sequence = 9, .rows = 1};
    const lh_batch batch = {.rows = 1, .tokens = &token, .segment_count = 1, .segments = &segment};
    const lh_stage_shard shard = {0, 1, 0, 192, values, NULL};
    lh_stage_step *step;
    expected_of(&of, expected);
    chain c = chain_start(&of, 2, 2);
    assert_int_equal(lh_stage_begin(first_of(&c, 1), &batch, &step, NULL), LH_OK);
    memcpy(&values[100], &(uint32_t){0x7f800000}, sizeof(float));
    assert_int_equal(lh_stage_accept(step, &shard, NULL), LH_ERR_INVALID);
    lh_stage_end(step);
    generate(&c);
    assert_memory_equal(c.digests, expected, sizeof expected);
    chain_end(&c);
    model_close(&of);
}

/* ---- Forming ---- */

/* The first member, gone bad: it tells its pages, as all do, and then orders more than any step of
 * this model has. */
static void *order_too_much(void *context) {
    machine *m = context;
    const mesh_member *member = &m->group->mesh.members[m->number];
    const lh_mesh_options options = {.identity = member->options.identity,
                                     .addresses = m->group->mesh.addresses,
                                     .listener = member->options.listener,
                                     .forming_ms = 20000,
                                     .wait_ms = 20000,
                                     .payload_bytes_max = 256u << 20};
    lh_mesh *mesh;
    void *payload;
    assert_int_equal(lh_mesh_create(&options, &mesh, &m->error), LH_OK);
    assert_int_equal(lh_mesh_open(mesh, sizeof(uint64_t), &payload, NULL), LH_OK);
    *(uint64_t *)payload = 1;
    assert_int_equal(lh_mesh_post_gather(mesh, UINT64_MAX, NULL), LH_OK);
    assert_int_equal(lh_mesh_open(mesh, 8u << 20, &payload, NULL), LH_OK);
    memset(payload, 0, 8u << 20);
    /* both are in vain once the other has closed, which it does when the order's size has come */
    lh_mesh_post_order(mesh, NULL);
    lh_mesh_flush(mesh, NULL);
    lh_mesh_destroy(mesh);
    return NULL;
}

static void what_no_step_has_is_not_kept(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    group *g = calloc(1, sizeof *g);
    pthread_t leader;
    g->count = 2;
    g->forming_ms = 20000;
    mesh_group_begin(&g->mesh, 2);
    for (uint32_t i = 0; i < 2; i++) {
        g->machines[i].group = g;
        g->machines[i].number = i;
        machine_build(&g->machines[i], &of, (lh_layer_range){0, of.config.layers}, 2u << 20);
    }
    pthread_create(&leader, NULL, order_too_much, &g->machines[0]);
    form(&g->machines[1]);
    assert_int_equal(g->machines[1].status, LH_OK);
    follow(&g->machines[1]);
    assert_int_equal(g->machines[1].status, LH_ERR_LIMIT);
    assert_non_null(strstr(g->machines[1].error.message, "8388608 bytes"));
    lh_team_end(g->machines[1].team);
    pthread_join(leader, NULL);
    group_end(g);
    model_close(&of);
}

static void the_smallest_cache_counts(void **state) {
    (void)state;
    static const size_t kv_bytes[] = {2u << 20, 1u << 20, 4u << 20};
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    group *g = group_form(&of, 3, (lh_layer_range){0, 4}, kv_bytes, 3);
    size_t pages = lh_kv_cache_pages_total(lh_stage_kv(g->machines[0].stage));
    for (uint32_t i = 0; i < 3; i++) {
        const lh_kv_cache *kv = lh_stage_kv(g->machines[i].stage);
        assert_int_equal(lh_kv_cache_pages_total(kv), pages);
        assert_int_equal(lh_kv_cache_pages_free(kv), pages);
        assert_true(pages * lh_kv_cache_page_bytes(kv) <= kv_bytes[i]);
    }
    group_end(g);
    model_close(&of);
}

static void who_does_not_come_is_named(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    group *g = group_form(&of, 3, (lh_layer_range){0, 4}, NULL, 1);
    assert_int_equal(g->machines[0].status, LH_ERR_TIMEOUT);
    assert_non_null(strstr(g->machines[0].error.message, "mesh: of members 1"));
    assert_int_equal(g->machines[2].status, LH_ERR_TIMEOUT);
    g->is_cancelled = true;
    form(&g->machines[0]);
    assert_int_equal(g->machines[0].status, LH_ERR_CANCELLED);
    group_end(g);
    model_close(&of);
}

/* One of three goes when it has come, before the last one is there, and comes back: the others
 * wait. */
static void who_comes_back_is_awaited(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    group *g = group_form(&of, 3, (lh_layer_range){0, 4}, NULL, 0);
    lh_mesh_options early = g->mesh.members[1].options;
    lh_mesh *none;
    g->forming_ms = 20000;
    early.forming_ms = 200;
    pthread_create(&g->machines[0].thread, NULL, form, &g->machines[0]);
    assert_int_equal(lh_mesh_create(&early, &none, NULL), LH_ERR_TIMEOUT); /* without the third */
    for (uint32_t i = 1; i < 3; i++)
        pthread_create(&g->machines[i].thread, NULL, form, &g->machines[i]);
    for (uint32_t i = 0; i < 3; i++) {
        pthread_join(g->machines[i].thread, NULL);
        if (g->machines[i].status != LH_OK)
            fail_msg("member %u: %s", i, g->machines[i].error.message);
    }
    group_end(g);
    model_close(&of);
}

/* ---- Failing ---- */

/* A member goes while nothing is computed: the next step finds out, and each member hears once. */
static void a_lost_member_ends_the_team(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    chain c = chain_start(&of, 1, 3);
    const lh_step_segment segment = {.sequence = 9, .rows = 4};
    assert_int_equal(run(&c, &segment, 1, 1), LH_OK);
    lh_team_end(c.groups[0]->machines[1].team);
    lh_status status = LH_OK;
    lh_step_segment next = {.sequence = 10, .rows = 1};
    for (; status == LH_OK; next.first_position++)
        status = run(&c, &next, 1, 1);
    assert_int_equal(status, LH_ERR_CLOSED);
    next = (lh_step_segment){.sequence = 11, .rows = 1};
    assert_int_equal(run(&c, &next, 1, 1), LH_ERR_CLOSED);
    lh_error why;
    assert_int_equal(c.groups[0]->machines[0].failures, 1);
    assert_int_equal(lh_team_failure(c.groups[0]->machines[0].team, &why), LH_ERR_CLOSED);
    assert_non_null(strstr(why.message, "member 1 of the stage"));
    for (int i = 0; c.groups[0]->machines[2].failures == 0 && i < 20000; i++)
        usleep(1000);
    for (uint32_t i = 1; i < 3; i++)
        lh_team_destroy(c.groups[0]->machines[i].team);
    assert_int_equal(c.groups[0]->machines[1].failures, 0); /* it has ended by itself */
    assert_int_equal(c.groups[0]->machines[2].failures, 1);
    for (uint32_t i = 1; i < 3; i++)
        c.groups[0]->machines[i].team = NULL;
    chain_end(&c);
    model_close(&of);
}

/* Of a stage that draws nothing, while nothing is computed: the next epoch finds out. */
static void an_epoch_begins_only_with_all(void **state) {
    (void)state;
    const tiny_llama described = four_layers();
    model of = model_open(&described);
    group *g = group_form(&of, 2, (lh_layer_range){0, 2}, NULL, 2);
    group_begin(g);
    lh_stage_drop_masks(g->machines[0].stage);
    assert_int_equal(g->machines[0].failures, 0);
    lh_team_destroy(g->machines[1].team); /* its connection is closed when this returns */
    g->machines[1].team = NULL;
    lh_stage_drop_masks(g->machines[0].stage);
    assert_int_equal(g->machines[0].failures, 1);
    group_end(g);
    model_close(&of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_gives_the_bits_of_one_machine),
        cmocka_unit_test(a_team_rests_until_it_is_needed),
        cmocka_unit_test(a_member_may_be_lost_before_it_is_needed),
        cmocka_unit_test(sequences_change_on_all),
        cmocka_unit_test(masks_go_to_all),
        cmocka_unit_test(what_is_refused_is_so_on_all),
        cmocka_unit_test(what_no_step_has_is_not_kept),
        cmocka_unit_test(the_smallest_cache_counts),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(who_comes_back_is_awaited),
        cmocka_unit_test(a_lost_member_ends_the_team),
        cmocka_unit_test(an_epoch_begins_only_with_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
