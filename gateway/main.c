/* longhaul-gateway: reads the model's tokenizer and tensor list, starts the engine and the API, and
 * drains them on SIGTERM. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "gateway/auth/authenticator.h"
#include "gateway/cli/key_command.h"
#include "gateway/cli/settings.h"
#include "gateway/cli/trace_command.h"
#include "gateway/engine/engine_options.h"
#include "gateway/fleet/model_profile.h"
#include "gateway/openai/api.h"
#include "gateway/text/served_model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Between two looks for a second signal. */
#define DRAIN_SLICE_MS 100u
/* A worker under suspicion must report within three of its turns. */
#define PROBATION_RENEWALS 3
/* Of what workers tell of the last requests' steps. */
#define TRACE_BYTES_MAX (32u << 20)

/* Workers' connections, the model's file, epolls and what else is open. */
#define DESCRIPTORS_BESIDES 256

typedef struct gateway {
    lh_gateway_settings settings;
    lh_model_file *file;
    lh_model_profile profile;
    lh_tokenizer *tokenizer;
    lh_chat_template *chat_template;
    lh_error chat_refusal;
    char model_name[256], fingerprint[20];
    lh_served_model model;
    lh_trace_store *traces; /* NULL: none are kept */
    lh_engine *engine;
    lh_authenticator *authenticator;
    lh_openai_api *api;
} gateway;

/* ---- The model ---- */

static void name_model(gateway *g) {
    const char *path = g->settings.model, *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *given = g->settings.model_name;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".gguf") == 0)
        length -= 5;
    snprintf(g->model_name, sizeof g->model_name, "%.*s",
             given[0] ? 255 : (int)(length < 255 ? length : 255), given[0] ? given : base);
}

/* The same fingerprint, seed and request give the same answer: so it holds what the numbers depend
 * on. */
static lh_status make_fingerprint(gateway *g, lh_error *error) {
    char text[256];
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    snprintf(text, sizeof text, "longhaul %s, model %s, %llu bytes, activations %s, wire %s%s",
             LONGHAUL_VERSION, lh_model_file_header_sha256(g->file),
             (unsigned long long)lh_model_file_size(g->file), g->settings.activations,
             g->settings.wire, g->settings.wire_allow_q8 ? " with q8" : "");
    if (lh_sha256_digest(text, strlen(text), digest) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fingerprint");
    lh_sha256_render(digest, hex);
    snprintf(g->fingerprint, sizeof g->fingerprint, "fp_%.16s", hex);
    return LH_OK;
}

/* A model without a chat template that we know still serves completions. */
static lh_status open_chat_template(gateway *g, lh_error *error) {
    lh_status status =
        lh_chat_template_create(lh_model_file_gguf(g->file), &g->chat_template, &g->chat_refusal);
    if (status == LH_OK)
        return LH_OK;
    g->chat_template = NULL;
    if (status == LH_ERR_NO_MEMORY)
        return lh_fail(error, status, "%s", g->chat_refusal.message);
    lh_log(LH_LOG_WARN, "gateway", "chat completions are off reason=\"%s\"",
           g->chat_refusal.message);
    return LH_OK;
}

static lh_status set_sampling(gateway *g, lh_sampling_defaults *defaults, lh_error *error) {
    char text[LH_SAMPLING_DEFAULTS_BYTES];
    *defaults = lh_sampling_api_defaults;
    lh_sampling_defaults_read(defaults, lh_model_file_gguf(g->file));
    lh_status status = lh_gateway_settings_set_sampling(&g->settings, defaults, error);
    if (status == LH_OK)
        lh_log(LH_LOG_INFO, "gateway", "sampling where a request does not say %s",
               lh_sampling_defaults_text(defaults, text));
    return status;
}

static uint32_t context_of(const gateway *g) {
    uint32_t wanted = (uint32_t)g->settings.context;
    return wanted ? wanted : g->profile.context;
}

static lh_status open_model(gateway *g, lh_error *error) {
    lh_status status = lh_model_file_open(g->settings.model, &g->file, error);
    if (status == LH_OK)
        status = lh_model_profile_read(lh_model_file_gguf(g->file), &g->profile, error);
    if (status == LH_OK)
        status = lh_tokenizer_create(lh_model_file_gguf(g->file), &g->tokenizer, error);
    if (status == LH_OK)
        status = open_chat_template(g, error);
    if (status == LH_OK)
        status = make_fingerprint(g, error);
    if (status != LH_OK)
        return status;
    if (context_of(g) > g->profile.context)
        return lh_fail(error, LH_ERR_INVALID, "--context %u is over the model's %u", context_of(g),
                       g->profile.context);
    name_model(g);
    struct stat info;
    g->model = (lh_served_model){
        .id = g->model_name,
        .fingerprint = g->fingerprint,
        .created = stat(g->settings.model, &info) == 0 ? (int64_t)info.st_mtime : 0,
        .context = context_of(g),
        .vocabulary = g->profile.vocabulary,
        .tokenizer = g->tokenizer,
        .chat_template = g->chat_template,
        .chat_refusal = g->chat_refusal.message};
    return set_sampling(g, &g->model.sampling, error);
}

/* ---- Engine and API ---- */

static lh_status open_traces(gateway *g, lh_error *error) {
    if (g->settings.traces == 0)
        return LH_OK;
    return lh_trace_store_create((uint32_t)g->settings.traces, TRACE_BYTES_MAX, &g->traces, error);
}

static lh_status start_engine(gateway *g, lh_error *error) {
    const lh_gateway_settings *s = &g->settings;
    bool has_tls = lh_program_options_have_tls(&s->program);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    lh_wire_policy wire = {.is_auto = strcmp(s->wire, "auto") == 0, .allows_q8 = s->wire_allow_q8};
    if (!wire.is_auto && !lh_wire_parse(s->wire, &wire.type))
        return lh_fail(error, LH_ERR_INVALID, "--wire %s is no wire type", s->wire);
    lh_overlap_spec overlap;
    lh_status status = lh_overlap_spec_parse(s->overlap, &overlap, error);
    if (status != LH_OK)
        return status;
    lh_engine_options options = {
        .replicas = (uint32_t)s->replicas,
        .fleet = {.model = &g->profile,
                  .planner = {.sites = s->sites, .stages = (uint32_t)s->stages},
                  .chain_name = "main",
                  .model_digest = lh_model_file_header_sha256(g->file),
                  .origin = {s->site, has_tls},
                  .workers_expected = (uint32_t)s->workers,
                  .context = context_of(g),
                  .rows_max = (uint32_t)s->rows_max,
                  .has_q16 = strcmp(s->activations, "q16") == 0,
                  .wire = wire,
                  .plan_delay_us = s->plan_delay_ms * 1000,
                  .renew_us = s->renew_ms * 1000,
                  .lease_us = s->lease_ms * 1000,
                  .rebalance_delay_us =
                      strcmp(s->rebalance, "auto") == 0 ? s->rebalance_delay_ms * 1000 : 0,
                  .probation_us = s->renew_ms * 1000 * PROBATION_RENEWALS,
                  .first_epoch = (uint32_t)time(NULL)},
        .scheduler = {.sequences_max = (uint32_t)s->max_sequences,
                      .queue_max = (uint32_t)s->max_queue,
                      .overlap = overlap,
                      .step_budget_us = s->step_budget_ms * 1000,
                      .width = g->profile.width,
                      .rows_max = (uint32_t)s->rows_max,
                      .vocabulary = g->profile.vocabulary,
                      .prefix_cache = strcmp(s->prefix_cache, "on") == 0,
                      .step_timeout_us = s->step_timeout_ms * 1000,
                      .replay_timeout_us = s->replay_timeout_ms * 1000,
                      .takeover_timeout_us = s->takeover_timeout_ms * 1000},
        .model_file = g->file,
        .model_name = g->model_name,
        .fleet_listen = s->fleet_listen,
        .tls = has_tls ? &s->program.tls : NULL,
        .limits = lh_h2_limits_of_program(&s->program),
        .digest_threads = cores > 4   ? 4
                          : cores > 0 ? (uint32_t)cores
                                      : 1,
        .logs_digests = s->logits_digest,
        .traces = g->traces};
    return lh_engine_create(&options, &g->engine, error);
}

static lh_status open_authenticator(gateway *g, lh_error *error) {
    const lh_key_limits limits = {
        .requests_per_minute = (uint32_t)g->settings.key_requests_per_minute,
        .tokens_per_minute = (uint32_t)g->settings.key_tokens_per_minute,
        .concurrent_requests = (uint32_t)g->settings.key_concurrent_requests};
    return lh_authenticator_create(g->settings.api_key_file, &limits, lh_clock_us(),
                                   &g->authenticator, error);
}

/* What is in progress goes on; where the file is wrong the keys stay as they were. */
static void reload_keys(gateway *g) {
    lh_error error;
    if (lh_authenticator_reload(g->authenticator, lh_clock_us(), &error))
        lh_log(LH_LOG_ERROR, "gateway", "the keys stay as they were: %s", error.message);
    else
        lh_log(LH_LOG_INFO, "gateway", "keys read again count=%zu",
               lh_authenticator_keys(g->authenticator));
}

/* SIGHUP. */
static void reload_files(gateway *g) {
    bool has_keys = g->settings.api_key_file[0],
         has_tls = lh_program_options_have_tls(&g->settings.program);
    if (has_keys)
        reload_keys(g);
    if (has_tls)
        lh_program_options_reload_tls(&g->settings.program, "gateway");
    if (!has_keys && !has_tls)
        lh_log(LH_LOG_WARN, "gateway",
               "SIGHUP reads keys and certificates again, and there is neither --api-key-file nor "
               "--tls-cert");
}

/* Each connection is a descriptor, and the usual limit of 1024 is a default for programs that use
 * select(). */
static void raise_descriptor_limit(const gateway *g) {
    struct rlimit limit;
    rlim_t wanted = (rlim_t)g->settings.max_connections + DESCRIPTORS_BESIDES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted)
        lh_log(LH_LOG_WARN, "gateway",
               "descriptors are limited to %llu: too few for --max-connections %lld",
               (unsigned long long)limit.rlim_cur, (long long)g->settings.max_connections);
}

static lh_status start_api(gateway *g, lh_error *error) {
    lh_openai_api_config config = lh_openai_api_config_default();
    config.http.listen = g->settings.listen;
    config.http.allowed_hosts = g->settings.allowed_hosts;
    config.http.connections = (uint32_t)g->settings.max_connections;
    config.http.connections_per_address = (uint32_t)g->settings.max_connections_per_address;
    config.limits.sequences_max =
        (uint32_t)(g->settings.replicas * g->settings.max_sequences + g->settings.max_queue);
    config.request_timeout_us = g->settings.request_timeout * 1000000;
    config.limits.strict = g->settings.strict_params;
    config.logits_digest = g->settings.logits_digest;
    config.traces = g->traces;
    config.authenticator = g->authenticator;
    raise_descriptor_limit(g);
    return lh_openai_api_open(&config, g->engine, &g->model, &g->api, error);
}

static void close_all(gateway *g) {
    if (g->api)
        lh_openai_api_close(g->api);
    lh_authenticator_destroy(g->authenticator);
    lh_engine_destroy(g->engine);
    lh_trace_store_destroy(g->traces);
    lh_chat_template_destroy(g->chat_template);
    lh_tokenizer_destroy(g->tokenizer);
    lh_model_profile_reset(&g->profile);
    lh_model_file_close(g->file);
    lh_program_options_close_tls(&g->settings.program);
}

/* ---- Signals ---- */

/* Blocked in every thread; this one waits for them. Those that end the program are told apart from
 * SIGHUP. */
static sigset_t block_signals(void) {
    sigset_t ends, all;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    all = ends;
    sigaddset(&all, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    return ends;
}

static void await_end(gateway *g, const sigset_t *ends) {
    sigset_t all = *ends;
    int number = SIGHUP;
    sigaddset(&all, SIGHUP);
    while (number == SIGHUP) {
        sigwait(&all, &number);
        if (number == SIGHUP)
            reload_files(g);
    }
}

static bool has_second_signal(const sigset_t *ends) {
    const struct timespec no_time = {0, 0};
    return sigtimedwait(ends, NULL, &no_time) > 0;
}

/* Lets requests in progress finish. The API's drain returns early when all have. */
static void drain(gateway *g, const sigset_t *ends) {
    int64_t limit_us = lh_clock_us() + g->settings.drain_timeout * 1000000;
    lh_engine_drain(g->engine);
    lh_engine_room room = lh_engine_current_room(g->engine);
    lh_log(LH_LOG_INFO, "gateway", "draining running=%u waiting=%u timeout_s=%lld", room.running,
           room.waiting, (long long)g->settings.drain_timeout);
    while (lh_clock_us() < limit_us) {
        int64_t before_us = lh_clock_us();
        lh_openai_api_drain(g->api, DRAIN_SLICE_MS);
        if (lh_clock_us() - before_us < (int64_t)DRAIN_SLICE_MS * 1000)
            return;
        if (has_second_signal(ends)) {
            lh_log(LH_LOG_WARN, "gateway", "a second signal: ending requests in progress");
            return;
        }
    }
    lh_log(LH_LOG_WARN, "gateway", "the drain timeout is over: ending requests in progress");
}

static int serve(gateway *g) {
    lh_error error;
    sigset_t ends = block_signals();
    lh_status status = lh_program_options_open_tls(&g->settings.program, &error);
    if (status == LH_OK)
        status = open_model(g, &error);
    if (status == LH_OK)
        status = open_traces(g, &error);
    if (status == LH_OK)
        status = open_authenticator(g, &error);
    if (status == LH_OK)
        status = start_engine(g, &error);
    if (status == LH_OK)
        status = start_api(g, &error);
    if (status != LH_OK) {
        fprintf(stderr, "longhaul-gateway: %s\n", error.message);
        close_all(g);
        return 1;
    }
    lh_log(LH_LOG_INFO, "gateway",
           "listening model=%s fingerprint=%s context=%u api_port=%u fleet_port=%d tls=%d",
           g->model.id, g->model.fingerprint, g->model.context, lh_openai_api_port(g->api),
           lh_engine_fleet_port(g->engine), lh_program_options_have_tls(&g->settings.program));
    await_end(g, &ends);
    drain(g, &ends);
    close_all(g);
    lh_log(LH_LOG_INFO, "gateway", "stopped");
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "trace") == 0)
        return lh_trace_command(argc, argv);
    if (argc > 1 && strcmp(argv[1], "key") == 0)
        return lh_key_command(argc, argv);
    gateway g = {0};
    lh_error error;
    lh_option_action action;
    lh_status status = lh_options_parse(&lh_gateway_option_table, argc, argv, &g.settings, stdout,
                                        &action, &error);
    if (status == LH_OK && action == LH_OPTIONS_EXIT)
        return 0;
    if (status == LH_OK)
        status = lh_gateway_settings_check(&g.settings, &error);
    if (status != LH_OK) {
        fprintf(stderr, "longhaul-gateway: %s\n", error.message);
        return 2;
    }
    lh_program_options_apply(&g.settings.program);
    return serve(&g);
}
