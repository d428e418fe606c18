/* From the engine's events to text: stop strings, whole characters, logprobs, several choices,
 * failures, hang-ups. */
#include "common/base/clock.h"
#include "common/base/text_decoder.h"
#include "common/base/utf8.h"
#include "gateway/openai/generation.h"
#include "tests/gateway/support/scripted_engine.h"
#include "tests/gateway/support/scripted_model.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CHOICES_MAX 16

typedef struct test_bench {
    lh_engine *engine;
    scripted_model *model;
} test_bench;

/* One run: what came out. */
typedef struct outcome {
    sem_t ready;
    atomic_uint wakes;
    lh_generation *generation;
    lh_text_buffer text[CHOICES_MAX], token_bytes[CHOICES_MAX];
    lh_finish_reason reason[CHOICES_MAX];
    uint32_t finished, pieces, tokens[CHOICES_MAX];
    bool offsets_right;
    lh_status status; /* that ended it */
    lh_error error;
} outcome;

static void on_ready(void *context) {
    outcome *run = context;
    run->wakes++;
    sem_post(&run->ready);
}

static void wait_ready(outcome *run) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    while (sem_timedwait(&run->ready, &until) != 0)
        assert_int_equal(errno, EINTR);
}

static uint32_t *tokens_of(const char *text, uint32_t *count) {
    *count = (uint32_t)strlen(text);
    uint32_t *tokens = calloc(*count, sizeof *tokens);
    for (uint32_t i = 0; i < *count; i++)
        tokens[i] = 3u + (unsigned char)text[i];
    return tokens;
}

static size_t count_characters(const lh_text_buffer *text) {
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += ((unsigned char)text->bytes[i] & 0xC0) != 0x80;
    return count;
}

static void take_piece(outcome *run, const lh_served_model *model,
                       const lh_generation_piece *piece) {
    uint32_t choice = piece->choice;
    assert_true(choice < CHOICES_MAX);
    assert_int_equal(lh_utf8_valid_prefix(piece->text, piece->length), piece->length);
    assert_true(piece->length > 0 || piece->finished);
    for (size_t i = 0; i < piece->token_count; i++) {
        const char *bytes;
        size_t length;
        assert_int_equal(lh_tokenizer_token_bytes(model->tokenizer, piece->tokens[i].answer.token,
                                                  &bytes, &length),
                         LH_OK);
        assert_int_equal(lh_text_buffer_append(&run->token_bytes[choice], bytes, length, NULL),
                         LH_OK);
        run->tokens[choice]++;
        if (i == 0) /* its text begins in this piece, so not before it */
            run->offsets_right &=
                piece->tokens[i].text_offset >= count_characters(&run->text[choice]);
    }
    assert_int_equal(lh_text_buffer_append(&run->text[choice], piece->text, piece->length, NULL),
                     LH_OK);
    run->pieces++;
    if (piece->finished) {
        run->finished++;
        run->reason[choice] = piece->reason;
    }
}

static void pull_all(outcome *run, const lh_served_model *model) {
    for (;;) {
        lh_generation_piece piece;
        run->status = lh_generation_pull(run->generation, &piece, &run->error);
        if (run->status == LH_OK)
            take_piece(run, model, &piece);
        else if (run->status == LH_AGAIN)
            wait_ready(run);
        else
            return;
    }
}

static void begin(const test_bench *bench, lh_generation_options *options, outcome *run) {
    *run = (outcome){.offsets_right = true};
    sem_init(&run->ready, 0, 0);
    options->on_ready = on_ready;
    options->context = run;
    const lh_served_model *model = scripted_model_served(bench->model);
    assert_int_equal(
        lh_generation_create(bench->engine, model, options, &run->generation, &run->error), LH_OK);
    assert_int_equal(lh_generation_submit(run->generation, options, &run->error), LH_OK);
}

static void end(outcome *run) {
    lh_generation_destroy(run->generation);
    for (int i = 0; i < CHOICES_MAX; i++) {
        lh_text_buffer_reset(&run->text[i]);
        lh_text_buffer_reset(&run->token_bytes[i]);
    }
    sem_destroy(&run->ready);
}

/* One prompt, one choice, and what else *options says. */
static void generate(const test_bench *bench, const char *script, lh_generation_options *options,
                     outcome *run) {
    lh_generation_prompt prompt = {.max_tokens = 200};
    uint32_t *tokens = tokens_of(script, &prompt.token_count);
    prompt.tokens = tokens;
    options->prompts = &prompt;
    options->prompt_count = 1;
    if (!options->choices)
        options->choices = 1;
    begin(bench, options, run);
    free(tokens);
    pull_all(run, scripted_model_served(bench->model));
}

static void check_text(const outcome *run, uint32_t choice, const char *wanted, size_t length) {
    if (run->text[choice].length != length ||
        (length && memcmp(run->text[choice].bytes, wanted, length) != 0))
        fail_msg("\"%.*s\" instead of \"%.*s\"", (int)run->text[choice].length,
                 run->text[choice].bytes, (int)length, wanted);
}

/* Every substring of a text with many repetitions as the stop string: the answer is what a search
 * in the whole text says. */
static void stops_at_every_substring(void **state) {
    static const char text[] = "abaababaabaab";
    size_t length = sizeof text - 1;
    for (size_t from = 0; from < length; from++)
        for (size_t size = 1; from + size <= length; size++) {
            char script[64], stop[32];
            snprintf(script, sizeof script, "@@text=%s", text);
            snprintf(stop, sizeof stop, "%.*s", (int)size, text + from);
            lh_stop_string stops = {stop, size};
            lh_generation_options options = {
                .stops = &stops, .stop_count = 1, .sequence.sampling = {.want_logprob = true}};
            outcome run;
            generate(*state, script, &options, &run);
            assert_int_equal(run.status, LH_ERR_CLOSED);
            size_t kept = (size_t)(strstr(text, stop) - text);
            check_text(&run, 0, text, kept);
            assert_int_equal(run.reason[0], LH_FINISH_STOP);
            assert_int_equal(run.tokens[0],
                             kept); /* one token a byte: those of the stop string are not shown */
            assert_int_equal(lh_generation_usage(run.generation).completion_tokens, kept + size);
            end(&run);
        }
}

static void holds_back_no_more_than_a_prefix(void **state) {
    lh_stop_string stops[] = {{"STOP", 4}, {"xyz", 3}};
    lh_generation_options options = {.stops = stops, .stop_count = 2};
    outcome run;
    generate(*state, "@@text=abSTOxyST", &options, &run);
    check_text(&run, 0, "abSTOxyST", 9);
    assert_int_equal(run.reason[0], LH_FINISH_STOP); /* the model's own end */
    end(&run);
}

static void stop_strings_wait_for_min_tokens(void **state) {
    lh_stop_string stop = {"a", 1};
    lh_generation_options options = {.stops = &stop, .stop_count = 1, .sequence.min_tokens = 4};
    outcome run;
    generate(*state, "@@text=aabaab", &options, &run);
    check_text(&run, 0, "aab", 3);
    end(&run);
}

/* Random bytes, each a token: every piece is whole characters, and together they are what decoding
 * all at once gives. */
static void random_bytes_become_whole_characters(void **state) {
    uint64_t seed = 5;
    for (int round = 0; round < 1000; round++) {
        char raw[24], script[128] = "@@text=";
        size_t length = 1 + test_random(&seed) % sizeof raw;
        for (size_t i = 0; i < length; i++) {
            static const unsigned char likely[] = {'a',  0xC3, 0xA9, 0xE6, 0xBC, 0xA2,
                                                   0xF0, 0x9F, 0x8E, 0x89, 0xFF, 0xED};
            raw[i] = (char)likely[test_random(&seed) % sizeof likely];
            sprintf(script + strlen(script), "\\x%02x", (unsigned char)raw[i]);
        }
        lh_text_decoder decoder;
        lh_text_buffer wanted = {0};
        lh_text_decoder_init(&decoder);
        lh_text_decoder_push(&decoder, raw, length, &wanted, NULL);
        lh_text_decoder_finish(&decoder, &wanted, NULL);
        lh_generation_options options = {.sequence.sampling = {.want_logprob = true}};
        outcome run;
        generate(*state, script, &options, &run);
        check_text(&run, 0, wanted.bytes, wanted.length);
        /* every token is shown, and its own bytes */
        assert_int_equal(run.token_bytes[0].length, length);
        assert_memory_equal(run.token_bytes[0].bytes, raw, length);
        assert_true(run.offsets_right);
        end(&run);
        lh_text_buffer_reset(&wanted);
    }
}

static void tells_logprobs_and_digests(void **state) {
    const test_bench *bench = *state;
    lh_generation_options options = {
        .sequence.sampling = {.want_logprob = true, .want_digest = true, .top_logprobs = 3}};
    lh_generation_prompt prompt = {.max_tokens = 50};
    uint32_t *tokens = tokens_of("@@text=h\xc3\xa9y", &prompt.token_count);
    prompt.tokens = tokens;
    options.prompts = &prompt;
    options.prompt_count = options.choices = 1;
    outcome run;
    begin(bench, &options, &run);
    free(tokens);
    static const size_t offsets[] = {0, 1, 1, 2};
    size_t seen = 0;
    for (;;) {
        lh_generation_piece piece;
        lh_status status = lh_generation_pull(run.generation, &piece, &run.error);
        if (status == LH_AGAIN)
            wait_ready(&run);
        else if (status)
            break;
        for (size_t i = 0; status == LH_OK && i < piece.token_count; i++, seen++) {
            assert_float_equal(piece.tokens[i].answer.logprob, -0.25, 0);
            assert_int_equal(piece.tokens[i].answer.top_count, 3);
            assert_int_equal(piece.tokens[i].answer.top[0].token, piece.tokens[i].answer.token);
            assert_float_equal(piece.tokens[i].answer.top[2].logprob, -2.25, 0);
            assert_int_equal(piece.tokens[i].answer.digest, 0x1000 + seen);
            assert_int_equal(piece.tokens[i].text_offset, offsets[seen]);
        }
    }
    assert_int_equal(seen, 4);
    end(&run);
}

static void draws_each_choice_with_its_own_seed(void **state) {
    const test_bench *bench = *state;
    lh_generation_options options = {.choices = 3,
                                     .sequence.sampling = {.temperature = 1, .seed = 40}};
    outcome three, one;
    generate(bench, "x", &options, &three);
    assert_int_equal(three.finished, 3);
    assert_int_equal(lh_generation_usage(three.generation).prompt_tokens, 1);
    assert_int_equal(lh_generation_usage(three.generation).completion_tokens, 3 * 64);
    for (uint32_t i = 0; i < 3; i++) {
        lh_generation_options single = {.sequence.sampling = {.temperature = 1, .seed = 40 + i}};
        generate(bench, "x", &single, &one);
        check_text(&one, 0, three.text[i].bytes, three.text[i].length);
        end(&one);
    }
    end(&three);
}

static void orders_choices_by_prompt(void **state) {
    const test_bench *bench = *state;
    lh_generation_prompt prompts[2] = {{.max_tokens = 9}, {.max_tokens = 9}};
    uint32_t *first = tokens_of("@@text=one", &prompts[0].token_count);
    uint32_t *second = tokens_of("@@text=two!", &prompts[1].token_count);
    prompts[0].tokens = first;
    prompts[1].tokens = second;
    lh_generation_options options = {.prompts = prompts, .prompt_count = 2, .choices = 2};
    outcome run;
    begin(bench, &options, &run);
    free(first);
    free(second);
    pull_all(&run, scripted_model_served(bench->model));
    check_text(&run, 0, "one", 3);
    check_text(&run, 1, "one", 3);
    check_text(&run, 2, "two!", 4);
    check_text(&run, 3, "two!", 4);
    assert_int_equal(lh_generation_usage(run.generation).prompt_tokens, 10 + 11);
    end(&run);
}

static void generates_nothing_where_nothing_is_wanted(void **state) {
    const test_bench *bench = *state;
    scripted_engine_counts before = scripted_engine_count(bench->engine);
    lh_generation_prompt prompt = {.max_tokens = 0};
    uint32_t *tokens = tokens_of("@@text=one", &prompt.token_count);
    prompt.tokens = tokens;
    lh_generation_options options = {.prompts = &prompt, .prompt_count = 1, .choices = 2};
    outcome run;
    begin(bench, &options, &run);
    free(tokens);
    pull_all(&run, scripted_model_served(bench->model));
    assert_int_equal(run.finished, 2);
    assert_int_equal(run.reason[1], LH_FINISH_LENGTH);
    assert_int_equal(scripted_engine_count(bench->engine).submitted, before.submitted);
    end(&run);
}

static void who_wants_the_whole_is_woken_at_the_end(void **state) {
    static const lh_stop_string stop = {"z", 1};
    for (size_t stops = 0; stops < 2; stops++) {
        lh_generation_options options = {.only_whole = true, .stops = &stop, .stop_count = stops};
        outcome run;
        generate(*state, "@@text=abcd", &options, &run);
        check_text(&run, 0, "abcd", 4);
        lh_generation_destroy(run.generation); /* waits for what is being delivered */
        run.generation = NULL;
        assert_int_equal(run.wakes, stops ? 5 : 1); /* with stop strings a token may be the end */
        end(&run);
    }
}

static void hands_limits_to_the_engine(void **state) {
    const test_bench *bench = *state;
    static const uint32_t more[] = {77};
    lh_generation_options options = {
        .stop_tokens = more,
        .stop_token_count = 1,
        .sequence = {.min_tokens = 500, .tenant = 7, .priority = -3, .deadline_us = INT64_MAX}};
    outcome run;
    generate(bench, "@@text=ab", &options, &run);
    lh_sequence_request last = scripted_engine_last_request(bench->engine);
    assert_true(last.stop_token_count > 1);
    assert_int_equal(last.min_tokens, 200); /* no more than max_tokens */
    assert_true(last.tenant == 7 && last.priority == -3 && last.deadline_us == INT64_MAX);
    end(&run);
    options =
        (lh_generation_options){.ignore_eos = true, .stop_tokens = more, .stop_token_count = 1};
    generate(bench, "@@text=ab", &options, &run);
    assert_int_equal(scripted_engine_last_request(bench->engine).stop_token_count, 1);
    end(&run);
}

static void tells_failures(void **state) {
    lh_generation_options options = {0};
    outcome run;
    generate(*state, "@@fail_after=2 text=abcd", &options, &run);
    check_text(&run, 0, "ab", 2);
    assert_int_equal(run.status, LH_ERR_UNAVAILABLE);
    end(&run);
    generate(*state, "@@fail_after=2 internal=1 text=abcd", &options, &run);
    assert_int_equal(run.status, LH_ERR_INTERNAL);
    end(&run);
}

static void tells_refusals(void **state) {
    const test_bench *bench = *state;
    lh_generation_prompt prompt = {.max_tokens = 9};
    uint32_t *tokens = tokens_of("@@refuse=busy", &prompt.token_count);
    prompt.tokens = tokens;
    lh_generation_options options = {
        .prompts = &prompt, .prompt_count = 1, .choices = 1, .on_ready = on_ready};
    lh_generation *generation;
    lh_error error;
    const lh_served_model *model = scripted_model_served(bench->model);
    assert_int_equal(lh_generation_create(bench->engine, model, &options, &generation, &error),
                     LH_OK);
    assert_int_equal(lh_generation_submit(generation, &options, &error), LH_ERR_BUSY);
    lh_generation_abandon(generation);
    lh_generation_destroy(generation);
    free(tokens);
}

static void wait_idle(const test_bench *bench) {
    int64_t deadline_us = lh_clock_us() + 5000000;
    while (scripted_engine_count(bench->engine).running && lh_clock_us() < deadline_us)
        usleep(200);
    assert_int_equal(scripted_engine_count(bench->engine).running, 0);
}

static void stops_what_runs_when_it_is_destroyed(void **state) {
    const test_bench *bench = *state;
    lh_generation_prompt prompt = {.max_tokens = 100};
    uint32_t *tokens = tokens_of("@@interval_ms=1 text=abcdefgh", &prompt.token_count);
    prompt.tokens = tokens;
    lh_generation_options options = {
        .prompts = &prompt, .prompt_count = 1, .choices = 4, .ignore_eos = true};
    for (int i = 0; i < 50; i++) {
        outcome run;
        begin(bench, &options, &run);
        usleep((useconds_t)(i * 50));
        end(&run);
        assert_int_equal(scripted_engine_count(bench->engine).running, 0);
    }
    free(tokens);
}

static void *abandon(void *generation) {
    lh_generation_abandon(generation);
    return NULL;
}

/* The client hangs up at any time, also while the sequences are being submitted. */
static void may_be_abandoned_from_another_thread(void **state) {
    const test_bench *bench = *state;
    lh_generation_prompt prompt = {.max_tokens = 100};
    uint32_t *tokens = tokens_of("@@first_ms=60000 text=abcdefgh", &prompt.token_count);
    prompt.tokens = tokens;
    for (int i = 0; i < 200; i++) {
        outcome run = {0};
        sem_init(&run.ready, 0, 0);
        lh_generation_options options = {.prompts = &prompt,
                                         .prompt_count = 1,
                                         .choices = 8,
                                         .on_ready = on_ready,
                                         .context = &run};
        const lh_served_model *model = scripted_model_served(bench->model);
        assert_int_equal(
            lh_generation_create(bench->engine, model, &options, &run.generation, NULL), LH_OK);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, abandon, run.generation), 0);
        assert_int_equal(lh_generation_submit(run.generation, &options, NULL), LH_OK);
        wait_idle(bench);
        pthread_join(thread, NULL);
        end(&run);
    }
    free(tokens);
}

/* The n-th allocation of ours fails, wherever that is: an error or the right answer, and nothing is
 * left running. */
static void survives_without_memory(void **state) {
    const test_bench *bench = *state;
    const lh_served_model *model = scripted_model_served(bench->model);
    lh_stop_string stop = {"zz", 2};
    lh_generation_prompt prompt = {.max_tokens = 100};
    uint32_t *tokens = tokens_of("x", &prompt.token_count);
    prompt.tokens = tokens;
    for (size_t n = 1; n < 60; n++) {
        outcome run = {0};
        sem_init(&run.ready, 0, 0);
        lh_generation_options options = {.prompts = &prompt,
                                         .prompt_count = 1,
                                         .choices = 1,
                                         .stops = &stop,
                                         .stop_count = 1,
                                         .sequence = {.scores_prompt = n % 2 == 0},
                                         .on_ready = on_ready,
                                         .context = &run};
        failing_malloc_arm(n);
        lh_status status =
            lh_generation_create(bench->engine, model, &options, &run.generation, &run.error);
        failing_malloc_disarm(); /* the engine's double may not fail */
        if (status) {
            assert_int_equal(status, LH_ERR_NO_MEMORY);
            run.generation = NULL;
        }
        end(&run);
    }
    free(tokens);
    wait_idle(bench);
}

static int start(void **state) {
    test_bench *bench = calloc(1, sizeof *bench);
    bench->engine = scripted_engine_create();
    bench->model = scripted_model_create();
    *state = bench;
    return 0;
}

static int stop(void **state) {
    test_bench *bench = *state;
    scripted_engine_destroy(bench->engine);
    scripted_model_destroy(bench->model);
    free(bench);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_at_every_substring),
        cmocka_unit_test(holds_back_no_more_than_a_prefix),
        cmocka_unit_test(stop_strings_wait_for_min_tokens),
        cmocka_unit_test(random_bytes_become_whole_characters),
        cmocka_unit_test(tells_logprobs_and_digests),
        cmocka_unit_test(draws_each_choice_with_its_own_seed),
        cmocka_unit_test(orders_choices_by_prompt),
        cmocka_unit_test(generates_nothing_where_nothing_is_wanted),
        cmocka_unit_test(who_wants_the_whole_is_woken_at_the_end),
        cmocka_unit_test(hands_limits_to_the_engine),
        cmocka_unit_test(tells_failures),
        cmocka_unit_test(tells_refusals),
        cmocka_unit_test(stops_what_runs_when_it_is_destroyed),
        cmocka_unit_test(may_be_abandoned_from_another_thread),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
