/* The gateway's command line. Thread: start-up only. */
#pragma once

#include "common/base/options.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "common/net/program_options.h"
#include "common/sandbox/sandbox_rules.h"
#include "gateway/plan/team_policy.h"
#include "gateway/text/sampling_defaults.h"

#include <stdbool.h>
#include <stdint.h>

/* Where --metrics-listen is not given. */
#define LH_GATEWAY_METRICS_LISTEN "127.0.0.1:7102"
/* --max-connections is no less: each thread that serves them has a share. */
#define LH_CONNECTIONS_MIN 64

typedef struct lh_gateway_settings {
    lh_config_options config;
    const char *model, *models_dir, *model_name, *model_alias;
    const char *listen, *allowed_hosts, *cors_origin, *api_key_file, *fleet_listen;
    const char *ollama_listen;  /* "": the API has one address */
    const char *metrics_listen; /* operator_port.h */
    const char *api_tls_cert, *api_tls_key;
    bool insecure_no_keys;
    lh_program_options program;
    const char *state_dir, *certificate_life; /* lh_duration_parse */
    const char *site, *sites;
    int64_t workers, replicas, stages, plan_delay_ms, renew_ms, lease_ms, rebalance_delay_ms;
    const char *tensor_parallel; /* LH_TEAM_POLICY_CHOICES */
    const char *rebalance;
    const char *cover; /* "disk", "off" */
    int64_t cover_share;
    int64_t survey_bytes;
    const char *spot_check; /* a share, 0 to 1 */
    const char *objective;  /* for lh_goal_parse */
    int64_t token_ms_max;
    int64_t context, rows_max;
    const char *overlap;     /* lh_overlap_spec_parse */
    const char *activations; /* "q8", "q16" */
    const char *gpu_math;    /* "exact", "fast" */
    const char *kv_type;     /* "f32", "f16", "q8" */
    const char *wire;
    bool wire_allow_q8;
    int64_t key_requests_per_minute, key_tokens_per_minute, key_concurrent_requests;
    int64_t reading_ms_per_minute;
    int64_t request_timeout, max_connections, max_connections_per_address;
    int64_t step_budget_ms;
    int64_t max_sequences, max_queue;
    /* numbers; "": not given */
    const char *default_temperature, *default_top_p, *default_top_k, *default_min_p;
    const char *default_repetition_penalty;
    const char *chat_template;        /* a file; "": the model's own */
    const char *chat_template_kwargs; /* a JSON object */
    const char *reasoning_format;     /* "auto" or "none" */
    const char *template_date;        /* "2026-11-23"; "": today */
    const char *prefix_cache;         /* "on", "off" */
    int64_t step_timeout_ms, replay_timeout_ms, takeover_timeout_ms, drain_timeout;
    bool strict_params, logits_digest;
    int64_t traces;
} lh_gateway_settings;

/* The table behind the flags, the configuration file, --help and the documents. */
extern const lh_option_table lh_gateway_option_table;

/* The share of answers that are checked. LH_ERR_INVALID: it is none. */
lh_status lh_gateway_settings_spot_rate(const lh_gateway_settings *settings, double *rate,
                                        lh_error *error);
/* Of --tensor-parallel. */
lh_team_policy lh_gateway_settings_teams(const lh_gateway_settings *settings);
/* What the table cannot say: flags that need each other. LH_ERR_INVALID: the message names them and
 * what to do. */
lh_status lh_gateway_settings_check(const lh_gateway_settings *settings, lh_error *error);
/* Whether the gateway is to have a CA of its own: no certificates are given, and either --state-dir
 * is or the fleet port is open to others. */
bool lh_gateway_settings_have_own_ca(const lh_gateway_settings *settings);
/* In seconds. LH_ERR_INVALID: --certificate-life is none, which lh_gateway_settings_check has told
 * before. */
lh_status lh_gateway_settings_certificate_life(const lh_gateway_settings *settings,
                                               int64_t *seconds, lh_error *error);
/* Takes what the --default-... flags say of sampling. LH_ERR_INVALID: one is no number of its
 * range, which lh_gateway_settings_check has told before. */
lh_status lh_gateway_settings_set_sampling(const lh_gateway_settings *settings,
                                           lh_sampling_defaults *defaults, lh_error *error);
/* What a gateway with these settings may touch after its start: a line for each setting that names
 * a path or a listener. */
void lh_gateway_settings_allow(const lh_gateway_settings *settings, lh_sandbox_rules *rules);
