/* longhaul-gateway: reads the model's tokenizer and tensor list, starts the engine and the API, and
 * drains them on SIGTERM. */
#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/option_variables.h"
#include "common/base/state_folder.h"
#include "common/base/stray_signals.h"
#include "common/config/config.h"
#include "common/net/listener.h"
#include "common/net/service_manager.h"
#include "common/sandbox/sandbox.h"
#include "gateway/anthropic/anthropic.h"
#include "gateway/auth/authenticator.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/model_choice.h"
#include "gateway/cli/own_fleet.h"
#include "gateway/engine/engine_options.h"
#include "gateway/loaded_model.h"
#include "gateway/ollama/ollama.h"
#include "gateway/openai/api.h"
#include "gateway/operator/pages.h"
#include "gateway/responses/responses.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Between two looks for a second signal. */
#define DRAIN_SLICE_MS 100u
/* A worker under suspicion must report within three of its turns. */
#define PROBATION_RENEWALS 3
/* Of what workers tell of the last requests' steps. */
#define TRACE_BYTES_MAX (32u << 20)

/* What is larger has pages of its own, which go back when it is freed. glibc would raise that to 32
 * MiB by itself, for a program that frees large blocks. */
#define OWN_PAGES_BYTES (1 << 20)
/* So much that is free at an arena's end may stay there; that, too, would grow, to 64 MiB. */
#define KEPT_AT_END_BYTES (256 << 10)

/* Workers' connections, the model's files, epolls and what else is open. */
#define DESCRIPTORS_BESIDES 512

typedef struct gateway {
    lh_gateway_settings settings;
    char model_path[LH_MODELS_PATH_BYTES]; /* settings.model, where it was a name */
    lh_loaded_model model;
    lh_host_facts host;
    char state_folder[LH_STATE_PATH_BYTES]; /* "": there is none */
    lh_trace_store *traces;                 /* NULL: none are kept */
    lh_membership *membership;              /* NULL: the gateway has no CA of its own */
    lh_engine *engine;
    lh_authenticator *authenticator;
    lh_http_tls *api_tls; /* NULL: the API is without */
    lh_openai_api *api;
    lh_service_manager manager;
    lh_operator_pages *pages;
    lh_port_reservations reserved; /* until all is open */
} gateway;

/* ---- Engine and API ---- */

static lh_status open_traces(gateway *g, lh_error *error) {
    if (g->settings.traces == 0)
        return LH_OK;
    return lh_trace_store_create((uint32_t)g->settings.traces, TRACE_BYTES_MAX, &g->traces, error);
}

/* For `systemctl status`. The engine's thread. */
static void tell_state(void *context, const lh_engine *engine) {
    gateway *g = context;
    char status[LH_SERVICE_STATUS_BYTES];
    lh_engine_room room = lh_engine_current_room(engine);
    switch (lh_engine_current_state(engine)) {
    case LH_ENGINE_LOADING:
        snprintf(status, sizeof status, "Waits for workers at %.80s to hold %.80s",
                 g->settings.fleet_listen, g->model.name);
        break;
    case LH_ENGINE_READY:
        snprintf(status, sizeof status, "Serves %.80s at %.80s: %u requests run, %u wait",
                 g->model.name, g->settings.listen, room.running, room.waiting);
        break;
    case LH_ENGINE_NO_CHAIN:
        snprintf(status, sizeof status,
                 "Serves nobody: the workers that are there do not hold %.80s", g->model.name);
        break;
    case LH_ENGINE_DRAINING:
        snprintf(status, sizeof status, "Ends when %u requests are finished",
                 room.running + room.waiting);
        break;
    }
    lh_service_manager_tell(&g->manager, lh_clock_us(), status);
}

static const char *metrics_address(const lh_gateway_settings *s) {
    return lh_operator_port_address(s->metrics_listen, LH_GATEWAY_METRICS_LISTEN);
}

/* A CA of its own is in its state folder, and so is its TLS key; else the flags say where. */
static lh_self_description describe_self(gateway *g) {
    const lh_gateway_settings *s = &g->settings;
    if (g->membership &&
        lh_state_folder_choose(s->state_dir, "gateway", g->state_folder, NULL) != LH_OK)
        g->state_folder[0] = '\0';
    return (lh_self_description){.host = g->host,
                                 .connections_max = s->max_connections,
                                 .state_dir = g->state_folder,
                                 .api_key_file = s->api_key_file,
                                 .tls_key_file = g->membership ? "" : s->program.tls.key_file};
}

/* Prompts and answers of a length that is common, until something is known of those that come. */
static lh_aim aim_of(const lh_gateway_settings *s, const lh_wire_policy *wire) {
    lh_aim aim = {.sites = s->sites,
                  .stages = (uint32_t)s->stages,
                  .prompt_rows = 512,
                  .position = 1024,
                  .sequences_max = lh_min_u32((uint32_t)s->max_sequences, 8),
                  .token_us_max = (double)s->token_ms_max * 1000,
                  .wire = wire->is_auto ? LH_WIRE_F16 : wire->type};
    lh_goal_parse(s->objective, &aim.goal);
    return aim;
}

static lh_status start_engine(gateway *g, lh_error *error) {
    const lh_gateway_settings *s = &g->settings;
    bool has_tls = lh_program_options_have_tls(&s->program);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    lh_wire_policy wire = {.is_auto = strcmp(s->wire, "auto") == 0, .allows_q8 = s->wire_allow_q8};
    if (!wire.is_auto && !lh_wire_parse(s->wire, &wire.type))
        return lh_fail(error, LH_ERR_INVALID, "--wire %s is no wire type", s->wire);
    const lh_team_policy teams = lh_gateway_settings_teams(s);
    lh_overlap_spec overlap;
    double spot_check_rate;
    lh_status status = lh_overlap_spec_parse(s->overlap, &overlap, error);
    if (status == LH_OK)
        status = lh_gateway_settings_spot_rate(s, &spot_check_rate, error);
    if (status != LH_OK)
        return status;
    lh_engine_options options = {
        .replicas = (uint32_t)s->replicas,
        .spot_check_rate = spot_check_rate,
        .fleet = {.model = &g->model.profile,
                  .aim = aim_of(s, &wire),
                  .teams = teams,
                  .chain_name = "main",
                  .model_digest = lh_model_file_header_sha256(g->model.file),
                  .origin = {s->site, has_tls},
                  .workers_expected = (uint32_t)s->workers,
                  .context = g->model.served.context,
                  .rows_max = (uint32_t)s->rows_max,
                  .has_q16 = strcmp(s->activations, "q16") == 0,
                  .has_fast_math = strcmp(s->gpu_math, "fast") == 0,
                  .kv_type = s->kv_type,
                  .wire = wire,
                  .plan_delay_us = s->plan_delay_ms * 1000,
                  .renew_us = s->renew_ms * 1000,
                  .lease_us = s->lease_ms * 1000,
                  .rebalance_delay_us =
                      strcmp(s->rebalance, "auto") == 0 ? s->rebalance_delay_ms * 1000 : 0,
                  .cover_share = strcmp(s->cover, "disk") == 0 ? (double)s->cover_share / 100 : 0,
                  .survey_bytes = (uint64_t)s->survey_bytes,
                  .probation_us = s->renew_ms * 1000 * PROBATION_RENEWALS,
                  .first_epoch = (uint32_t)time(NULL)},
        .scheduler = {.sequences_max = (uint32_t)s->max_sequences,
                      .queue_max = (uint32_t)s->max_queue,
                      .overlap = overlap,
                      .step_budget_us = s->step_budget_ms * 1000,
                      .width = g->model.profile.width,
                      .rows_max = (uint32_t)s->rows_max,
                      .vocabulary = g->model.profile.vocabulary,
                      .prefix_cache = strcmp(s->prefix_cache, "on") == 0,
                      .step_timeout_us = s->step_timeout_ms * 1000,
                      .replay_timeout_us = s->replay_timeout_ms * 1000,
                      .takeover_timeout_us = s->takeover_timeout_ms * 1000},
        .model_file = g->model.file,
        .model_name = g->model.name,
        .fleet_listen = s->fleet_listen,
        .tls = has_tls ? &s->program.tls : NULL,
        .membership = g->membership,
        .limits = lh_h2_limits_of_program(&s->program),
        .digest_threads =
            cores > 4   ? 4
            : cores > 0 ? (uint32_t)cores
                        : 1,
        .logs_digests = s->logits_digest,
        .self = describe_self(g),
        .traces = g->traces,
        .alive_interval_ms = lh_service_manager_interval_ms(&g->manager),
        .on_alive = tell_state,
        .alive_context = g,
        .publishes_metrics = metrics_address(s)[0] != '\0'};
    return lh_engine_create(&options, &g->engine, error);
}

static lh_status open_authenticator(gateway *g, lh_error *error) {
    const lh_key_limits limits = {
        .requests_per_minute = (uint32_t)g->settings.key_requests_per_minute,
        .tokens_per_minute = (uint32_t)g->settings.key_tokens_per_minute,
        .concurrent_requests = (uint32_t)g->settings.key_concurrent_requests,
        .reading_ms_per_minute = (uint32_t)g->settings.reading_ms_per_minute};
    return lh_authenticator_create(g->settings.api_key_file, &limits, lh_clock_us(),
                                   &g->authenticator, error);
}

static lh_status open_api_tls(gateway *g, lh_error *error) {
    return g->settings.api_tls_cert[0]
               ? lh_http_tls_create(g->settings.api_tls_cert, g->settings.api_tls_key, &g->api_tls,
                                    error)
               : LH_OK;
}

static void reload_api_tls(gateway *g) {
    lh_error error;
    if (lh_http_tls_reload(g->api_tls, &error))
        lh_log(LH_LOG_ERROR, "gateway", "the API's certificate stays as it was: %s", error.message);
    else
        lh_log(LH_LOG_INFO, "gateway", "the API's certificate was read again");
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
    if (g->api_tls)
        reload_api_tls(g);
    if (!has_keys && !has_tls && !g->api_tls)
        lh_log(LH_LOG_WARN, "gateway",
               "SIGHUP reads keys and certificates again, and there is neither --api-key-file nor "
               "--api-tls-cert nor --tls-cert");
}

/* Each connection is a descriptor, and the usual limit of 1024 is a default for programs that use
 * select(). Returns how many connections there is room for at each of so many addresses, at most as
 * many as were asked for. */
static uint32_t fit_connections(rlim_t asked, rlim_t addresses) {
    struct rlimit limit;
    rlim_t wanted = asked * addresses + DESCRIPTORS_BESIDES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return (uint32_t)asked;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    rlim_t most = setrlimit(RLIMIT_NOFILE, &limit) ? before : limit.rlim_cur;
    rlim_t besides = most / 2 < DESCRIPTORS_BESIDES ? most / 2 : DESCRIPTORS_BESIDES;
    rlim_t fits = (most - besides) / addresses;
    fits = fits < LH_CONNECTIONS_MIN ? LH_CONNECTIONS_MIN : fits;
    if (fits >= asked)
        return (uint32_t)asked;
    lh_log(LH_LOG_WARN, "gateway",
           "descriptors are limited to %llu: room for %llu connections, not --max-connections %llu",
           (unsigned long long)most, (unsigned long long)fits, (unsigned long long)asked);
    return (uint32_t)fits;
}

static lh_status start_api(gateway *g, lh_error *error) {
    lh_openai_api_config config = lh_openai_api_config_default();
    config.http.listen = g->settings.listen;
    config.http.tls = g->api_tls;
    config.http.allowed_hosts = g->settings.allowed_hosts;
    config.ollama_listen = g->settings.ollama_listen;
    config.http.connections =
        fit_connections((rlim_t)g->settings.max_connections, g->settings.ollama_listen[0] ? 2 : 1);
    config.http.connections_per_address = (uint32_t)g->settings.max_connections_per_address;
    config.limits.sequences_max =
        (uint32_t)(g->settings.replicas * g->settings.max_sequences + g->settings.max_queue);
    config.request_timeout_us = g->settings.request_timeout * 1000000;
    config.limits.strict = g->settings.strict_params;
    config.limits.keeps_thoughts = strcmp(g->settings.reasoning_format, "none") == 0;
    config.logits_digest = g->settings.logits_digest;
    config.cors_origins = g->settings.cors_origin;
    config.traces = g->traces;
    config.responses = &lh_responses;
    config.messages = &lh_anthropic;
    config.ollama = &lh_ollama;
    config.authenticator = g->authenticator;
    return lh_openai_api_open(&config, g->engine, &g->model.served, &g->api, error);
}

static lh_status open_pages(gateway *g, lh_error *error) {
    const lh_operator_pages_options options = {.listen = g->settings.metrics_listen,
                                               .usual = LH_GATEWAY_METRICS_LISTEN,
                                               .engine = g->engine,
                                               .api = g->api,
                                               .model = &g->model.served};
    return lh_operator_pages_open(&options, &g->pages, error);
}

static void close_all(gateway *g) {
    lh_operator_pages_close(g->pages);
    if (g->api)
        lh_openai_api_close(g->api);
    lh_http_tls_destroy(g->api_tls);
    lh_authenticator_destroy(g->authenticator);
    lh_engine_destroy(g->engine);
    lh_trace_store_destroy(g->traces);
    lh_loaded_model_close(&g->model);
    lh_program_options_close_tls(&g->settings.program);
    lh_membership_close(g->membership);
    lh_service_manager_close(&g->manager);
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
    lh_stray_signals_ignore();
    return ends;
}

static void await_end(gateway *g, const sigset_t *ends) {
    sigset_t all = *ends;
    int number = SIGHUP;
    sigaddset(&all, SIGHUP);
    while (number == SIGHUP) {
        sigwait(&all, &number);
        if (number != SIGHUP)
            continue;
        lh_service_manager_reloading(&g->manager, lh_clock_us());
        reload_files(g);
        lh_service_manager_ready(&g->manager);
    }
}

static bool has_second_signal(const sigset_t *ends) {
    const struct timespec no_time = {0, 0};
    return sigtimedwait(ends, NULL, &no_time) > 0;
}

/* Lets requests in progress finish. The API's drain returns early when all have. */
static void drain(gateway *g, const sigset_t *ends) {
    int64_t limit_us = lh_clock_us() + g->settings.drain_timeout * 1000000;
    lh_service_manager_stopping(&g->manager);
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

static lh_status enter_sandbox(gateway *g, lh_error *error) {
    lh_sandbox_rules rules = {0};
    lh_program_options_read_host(&g->settings.program, &g->host);
    lh_gateway_settings_allow(&g->settings, &rules);
    if (g->membership)
        lh_own_fleet_allow(&g->settings, &rules);
    lh_status status = lh_sandbox_enter(&rules, "gateway", error);
    lh_host_facts_set(&g->host, LH_HOST_LANDLOCK, rules.has_landlock);
    lh_host_facts_set(&g->host, LH_HOST_SECCOMP, rules.has_seccomp);
    lh_sandbox_rules_reset(&rules);
    return status;
}

/* While it may still be seen who has a port. That may take a minute, in which the signals that end
 * the program end it at once. */
static lh_status reserve_ports(gateway *g, const sigset_t *ends, lh_error *error) {
    const lh_gateway_settings *s = &g->settings;
    const struct {
        const char *flag, *address;
    } ports[] = {{"listen", s->listen},
                 {"ollama-listen", s->ollama_listen},
                 {"fleet-listen", s->fleet_listen},
                 {"metrics-listen", lh_operator_port_address(s->metrics_listen, "")}};
    lh_status status = LH_OK;
    pthread_sigmask(SIG_UNBLOCK, ends, NULL);
    for (size_t i = 0; status == LH_OK && i < sizeof ports / sizeof ports[0]; i++)
        status = lh_listener_reserve(ports[i].flag, ports[i].address, LH_PORT_PATIENCE_MS,
                                     &g->reserved, error);
    pthread_sigmask(SIG_BLOCK, ends, NULL);
    return status;
}

/* From here on settings.model is a path. */
static lh_status find_model(gateway *g, lh_error *error) {
    lh_status status =
        lh_model_choose(g->settings.model, g->settings.models_dir, g->model_path, error);
    g->settings.model = g->model_path;
    return status;
}

/* The files of its TLS are known, and written, before all else is given up. */
static lh_status open_fleet(gateway *g, lh_error *error) {
    lh_status status = lh_gateway_settings_have_own_ca(&g->settings)
                           ? lh_own_fleet_open(&g->settings, &g->membership, error)
                           : LH_OK;
    if (status == LH_OK)
        status = enter_sandbox(g, error);
    if (status == LH_OK)
        status = lh_log_start_thread(error);
    return status == LH_OK
               ? lh_program_options_open_tls(&g->settings.program, LH_TLS_GATEWAY, error)
               : status;
}

/* What large bodies took is to go back when they are gone (reader_pool.c asks for it). Blocks that
 * wait in the fast bins would stand in the way: half a million of a large document's are there, and
 * the arena's end would begin behind the last of them. Measured, each of the three is needed; an
 * answer costs the same with them. Before the first thread. */
static void bound_kept_memory(void) {
    mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_AT_END_BYTES);
    mallopt(M_MXFAST, 0);
}

static int serve(gateway *g) {
    lh_error error;
    sigset_t ends = block_signals();
    bound_kept_memory();
    lh_service_manager_open(&g->manager, "gateway");
    lh_status status = reserve_ports(g, &ends, &error);
    if (status == LH_OK)
        status = find_model(g, &error);
    if (status == LH_OK)
        status = open_fleet(g, &error);
    if (status == LH_OK)
        status = lh_loaded_model_open(&g->model, &g->settings, &error);
    if (status == LH_OK)
        status = open_traces(g, &error);
    if (status == LH_OK)
        status = open_authenticator(g, &error);
    if (status == LH_OK)
        status = open_api_tls(g, &error);
    if (status == LH_OK)
        status = start_engine(g, &error);
    if (status == LH_OK && g->membership)
        status = lh_own_fleet_note_port(&g->settings, g->membership,
                                        lh_engine_fleet_port(g->engine), &error);
    if (status == LH_OK)
        status = start_api(g, &error);
    if (status == LH_OK)
        status = open_pages(g, &error);
    lh_listener_release(&g->reserved);
    if (status != LH_OK) {
        lh_log_failure("longhaul-gateway", error.message);
        close_all(g);
        return 1;
    }
    lh_log(LH_LOG_INFO, "gateway",
           "listening model=%s fingerprint=%s context=%u api_port=%u ollama_port=%u fleet_port=%d "
           "metrics_port=%u tls=%d",
           g->model.served.id, g->model.served.fingerprint, g->model.served.context,
           lh_openai_api_port(g->api), lh_openai_api_ollama_port(g->api),
           lh_engine_fleet_port(g->engine), lh_operator_pages_port(g->pages),
           lh_program_options_have_tls(&g->settings.program));
    lh_service_manager_ready(&g->manager);
    await_end(g, &ends);
    drain(g, &ends);
    close_all(g);
    lh_log(LH_LOG_INFO, "gateway", "stopped");
    return 0;
}

/* ---- --check-config ---- */

static lh_status open_named_model(gateway *g, lh_error *error) {
    lh_status status = find_model(g, error);
    return status == LH_OK ? lh_loaded_model_open(&g->model, &g->settings, error) : status;
}

static lh_status open_given_tls(gateway *g, lh_error *error) {
    return lh_program_options_open_tls(&g->settings.program, LH_TLS_GATEWAY, error);
}

/* The files that the options name are read as a start would; nothing is written, nor listened at.
 * All that is wrong is said, not the first alone. */
static int check_files(gateway *g, const lh_config *config) {
    static const struct {
        const char *option;
        lh_status (*open)(gateway *g, lh_error *error);
    } parts[] = {{"model", open_named_model},
                 {"api-key-file", open_authenticator},
                 {"api-tls-cert", open_api_tls},
                 {"tls-cert", open_given_tls}};
    int faults = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        lh_error error;
        if (parts[i].open(g, &error) == LH_OK)
            continue;
        lh_config_locate(config, parts[i].option, &error);
        fprintf(stderr, "%s\n", error.message);
        faults++;
    }
    if (faults == 0)
        puts("longhaul-gateway: nothing is wrong with the configuration");
    return faults ? 2 : 0;
}

static int start(gateway *g, const lh_config *config) {
    lh_error error;
    if (lh_gateway_settings_check(&g->settings, &error) != LH_OK) {
        lh_config_locate(config, NULL, &error);
        fprintf(stderr, g->settings.config.check ? "%s\n" : "longhaul-gateway: %s\n",
                error.message);
        return 2;
    }
    lh_program_options_apply(&g->settings.program);
    if (g->settings.config.check)
        lh_log_set_level(LH_LOG_WARN);
    if (g->settings.config.file[0])
        lh_log(LH_LOG_INFO, "gateway", "configuration read file=%s", g->settings.config.file);
    lh_option_variables_tell(&lh_gateway_option_table, "gateway");
    if (!g->settings.config.check)
        return serve(g);
    int code = check_files(g, config);
    close_all(g);
    return code;
}

int main(int argc, char **argv) {
    int code = 2;
    if (lh_commands_run(&lh_gateway_option_table, argc, argv, stdout, stderr, &code))
        return code;
    gateway g = {0};
    lh_error error;
    lh_option_action action;
    lh_config *config = NULL;
    code = 2;
    lh_status status = lh_config_parse(&lh_gateway_option_table, argc, argv, &g.settings, stdout,
                                       stderr, &config, &action, &error);
    if (status != LH_OK)
        fprintf(stderr, "longhaul-gateway: %s\n", error.message);
    else
        code = action == LH_OPTIONS_EXIT ? 0 : start(&g, config);
    lh_config_destroy(config);
    return code;
}
