/* A layout from the document, predictions from its costs, requests one by one and then together. */
#include "gateway/cli/plan_verify.h"

#include "common/base/arithmetic.h"
#include "common/base/text_page.h"
#include "gateway/auth/api_key.h"
#include "gateway/cli/fleet_fetch.h"
#include "gateway/cli/plan_page.h"
#include "gateway/cli/timed_answer_json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each of many sequences: so short that for nearly all of the time all of them decode. */
#define SHARED_PROMPT_TOKENS 16u

/* Milliseconds. */
typedef struct figure {
    double predicted, measured;
} figure;

typedef struct verification {
    const lh_verify_options *options;
    const lh_team_map *teams; /* that stand, each as one machine */
    const lh_fleet_map *alone;
    lh_fleet_document document;
    char key[LH_API_KEY_BYTES];
    figure first_token, token;
    figure shared_token; /* of many sequences: between two tokens of each */
} verification;

/* ---- Predicted ---- */

/* UINT32_MAX: who computes the stage has not measured anything. */
static uint32_t find_machine(const verification *v, const lh_document_stage *stage) {
    uint32_t leader = lh_fleet_map_find_machine(v->alone, stage->worker),
             machine = leader == UINT32_MAX ? leader : lh_team_map_find(v->teams, leader);
    bool is_there =
        machine != UINT32_MAX && v->teams->teams[machine].count == stage->member_count + 1;
    return is_there ? machine : UINT32_MAX;
}

static lh_status find_layout(const verification *v, const lh_document_chain *chain,
                             lh_layout *layout, lh_error *error) {
    if (strcmp(chain->state, "ready") != 0 || chain->stage_count == 0 ||
        chain->stage_count > LH_LAYOUT_STAGES_MAX)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "the chain is not ready; see longhaul-gateway status");
    layout->stage_count = (uint32_t)chain->stage_count;
    for (uint32_t s = 0; s < layout->stage_count; s++) {
        const lh_document_stage *stage = &chain->stages[s];
        uint32_t machine = find_machine(v, stage);
        if (machine == UINT32_MAX)
            return lh_fail(error, LH_ERR_UNAVAILABLE,
                           "worker %s has not measured its stage yet; ask again in a minute",
                           stage->worker);
        layout->stages[s] = (lh_layout_stage){machine, {stage->first_layer, stage->last_layer}};
    }
    return lh_layout_is_sound(layout, &v->teams->map)
               ? LH_OK
               : lh_fail(error, LH_ERR_UNAVAILABLE,
                         "not all links of the chain have been measured yet; ask again in a "
                         "minute");
}

/* Of the hops between workers, as far as they are alike. */
static lh_wire_type wire_of(const lh_document_chain *chain) {
    lh_wire_type wire = LH_WIRE_F32;
    for (size_t i = 0; i < chain->link_count; i++)
        if (chain->links[i].wire[0])
            lh_wire_parse(chain->links[i].wire, &wire);
    return wire;
}

typedef struct prediction {
    double first_token_ms, token_ms, shared_token_ms;
} prediction;

/* For prompts of so many tokens. */
static lh_status predict_for(const verification *v, uint32_t prompt_tokens, prediction *made,
                             lh_error *error) {
    const lh_document_chain *chain = &v->document.chains[0];
    const lh_aim aim = {.goal = LH_GOAL_TPOT,
                        .prompt_rows = prompt_tokens,
                        .position = prompt_tokens + v->options->answer_tokens / 2,
                        .sequences_max = v->options->sequences,
                        .wire = wire_of(chain)};
    lh_layout_plan plan = {0};
    lh_cost_chain costs;
    lh_status status = find_layout(v, chain, &plan.layout, error);
    if (status != LH_OK)
        return status;
    lh_layout_costs(&plan.layout, &v->teams->map, aim.wire, &costs);
    lh_plan_page page = {.map = &v->teams->map,
                         .aim = &aim,
                         .plan = &plan,
                         .costs = &costs,
                         .sequences = v->options->sequences};
    status = lh_plan_page_predict(&page, error);
    *made = (prediction){page.first_token_us / 1000, page.token_us / 1000, page.period_us / 1000};
    return status;
}

static lh_status predict(verification *v, lh_error *error) {
    prediction alone, shared;
    lh_status status = predict_for(v, v->options->prompt_tokens, &alone, error);
    if (status == LH_OK)
        status = predict_for(v, SHARED_PROMPT_TOKENS, &shared, error);
    if (status != LH_OK)
        return status;
    v->first_token.predicted = alone.first_token_ms;
    v->token.predicted = alone.token_ms;
    v->shared_token.predicted = shared.shared_token_ms;
    return LH_OK;
}

/* ---- Measured ---- */

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

typedef struct asker {
    pthread_t thread;
    lh_timed_request request;
    lh_timed_answer answer;
    lh_status status;
    lh_error error;
} asker;

static void *ask(void *context) {
    asker *a = context;
    a->status = lh_timed_answer_ask(&a->request, &a->answer, &a->error);
    return NULL;
}

static lh_status ask_in_turn(asker *askers, uint32_t count, lh_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        ask(&askers[i]);
        if (askers[i].status != LH_OK) {
            *error = askers[i].error;
            return askers[i].status;
        }
    }
    return LH_OK;
}

static lh_status ask_at_once(asker *askers, uint32_t count, lh_error *error) {
    lh_status status = LH_OK;
    uint32_t started = 0;
    while (started < count &&
           pthread_create(&askers[started].thread, NULL, ask, &askers[started]) == 0)
        started++;
    if (started < count)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no thread for %u requests at once", count);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(askers[i].thread, NULL);
        if (status == LH_OK && askers[i].status != LH_OK) {
            *error = askers[i].error;
            status = askers[i].status;
        }
    }
    return status;
}

static double median_of(const asker *askers, uint32_t count, double *values, bool is_token) {
    for (uint32_t i = 0; i < count; i++)
        values[i] = is_token ? askers[i].answer.token_ms : askers[i].answer.prefill_ms;
    return median(values, count);
}

static lh_status ask_all(verification *v, asker *askers, double *values, lh_error *error) {
    uint32_t requests = v->options->requests, sequences = v->options->sequences;
    lh_status status = ask_in_turn(askers, requests, error);
    if (status != LH_OK)
        return status;
    v->first_token.measured = median_of(askers, requests, values, false);
    v->token.measured = median_of(askers, requests, values, true);
    for (uint32_t i = 0; i < sequences; i++)
        askers[i].request.prompt_tokens = SHARED_PROMPT_TOKENS;
    status = ask_at_once(askers, sequences, error);
    if (status == LH_OK)
        v->shared_token.measured = median_of(askers, sequences, values, true);
    return status;
}

static lh_status measure(verification *v, lh_error *error) {
    const lh_verify_options *options = v->options;
    uint32_t count = lh_max_u32(options->requests, options->sequences);
    asker *askers = calloc(count, sizeof *askers);
    double *values = calloc(count, sizeof *values);
    for (uint32_t i = 0; askers && i < count; i++)
        askers[i].request = (lh_timed_request){options->url, v->key, options->prompt_tokens,
                                               options->answer_tokens};
    lh_status status = askers && values
                           ? ask_all(v, askers, values, error)
                           : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u requests", count);
    free(values);
    free(askers);
    return status;
}

/* ---- The page ---- */

static void put_chain(lh_text_page *page, const lh_document_chain *chain) {
    char text[96];
    lh_text_page_put(page, "chain %s, epoch %lld:", chain->name, (long long)chain->epoch);
    for (size_t i = 0; i < chain->stage_count; i++) {
        snprintf(text, sizeof text, "%s%.64s %u-%u", i ? "> " : "", chain->stages[i].worker,
                 chain->stages[i].first_layer, chain->stages[i].last_layer - 1);
        lh_text_page_put_words(page, 4, text);
    }
    lh_text_page_break(page);
    lh_text_page_break(page);
}

static void put_figure(lh_text_page *page, const char *name, const figure *value, const char *of) {
    lh_text_page_put_cell(page, 16, name);
    lh_text_page_put(page, "%10.2f %10.2f %10.2f  %s", value->predicted, value->measured,
                     value->measured / value->predicted, of);
    lh_text_page_break(page);
}

static lh_status print(const verification *v, unsigned width, lh_error *error) {
    lh_text_buffer out = {0};
    lh_text_page page = {.out = &out, .width = width};
    char text[96];
    put_chain(&page, &v->document.chains[0]);
    lh_text_page_put(&page, "%-16s%10s %10s %10s", "ms", "predicted", "measured", "ratio");
    lh_text_page_break(&page);
    snprintf(text, sizeof text, "of a prompt of %u tokens, median of %u", v->options->prompt_tokens,
             v->options->requests);
    put_figure(&page, "first token", &v->first_token, text);
    put_figure(&page, "time per token", &v->token, "of one sequence");
    snprintf(text, sizeof text, "of each of %u sequences, with prompts of %u",
             v->options->sequences, SHARED_PROMPT_TOKENS);
    put_figure(&page, "time per token", &v->shared_token, text);
    lh_status status = page.status == LH_OK
                           ? lh_text_buffer_print(&out, error)
                           : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the page");
    lh_text_buffer_reset(&out);
    return status;
}

/* ---- All ---- */

static lh_status verify(verification *v, unsigned width, lh_error *error) {
    if (v->document.chain_count == 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "there is no chain");
    lh_status status = predict(v, error);
    if (status == LH_OK)
        status = measure(v, error);
    return status == LH_OK ? print(v, width, error) : status;
}

lh_status lh_plan_verify(const lh_verify_options *options, const lh_fleet_map *map, unsigned width,
                         lh_error *error) {
    const lh_team_sizes sizes = lh_team_sizes_standing(map);
    lh_team_map *teams = NULL;
    lh_status status = lh_team_map_create(map, &sizes, &teams, error);
    verification v = {.options = options, .alone = map, .teams = teams};
    if (status == LH_OK && options->api_key_file[0])
        status = lh_api_key_read(options->api_key_file, v.key, error);
    if (status == LH_OK)
        status = lh_fleet_fetch(options->url, options->api_key_file, &v.document, error);
    if (status == LH_OK)
        status = verify(&v, width, error);
    lh_fleet_document_reset(&v.document);
    lh_team_map_destroy(teams);
    explicit_bzero(v.key, sizeof v.key);
    return status;
}
