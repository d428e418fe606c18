/* The gateway's flags. */
#include "gateway/cli/settings.h"

#include "common/gguf/part_name.h"
#include "common/net/address.h"
#include "common/net/allowed_hosts.h"
#include "common/operator/operator_port.h"
#include "common/protocol/worker_report.h"
#include "common/sandbox/program_rules.h"
#include "gateway/auth/key_list.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/duration.h"
#include "gateway/cli/models_option.h"
#include "gateway/cli/state_option.h"
#include "gateway/cost/overlap_spec.h"
#include "gateway/fleet/registry.h"
#include "gateway/fleet/replica_deal.h"
#include "gateway/openai/cors.h"
#include "gateway/openai/parameters.h"
#include "gateway/text/model_aliases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(lh_gateway_settings, field)

static const lh_option options[] = {
    LH_OPTION_CONFIG_ROWS(lh_gateway_settings, config),
    {"model", LH_OPTION_TEXT, AT(model), NULL, "PATH", 0, 0, NULL,
     "GGUF file to serve, or the name of one in --models-dir; workers fetch their layers from "
     "here. "
     "Of a model in several files (...-00001-of-00005.gguf) any of them"},
    LH_OPTION_MODELS_DIR(lh_gateway_settings, models_dir),
    {"model-name", LH_OPTION_TEXT, AT(model_name), "", "NAME", 0, 0, NULL,
     "the model's id in the API; default: the file's name without .gguf, and without a part's "
     "number"},
    {"model-alias", LH_OPTION_TEXT, AT(model_alias), "", "A,B,...", 0, 0, NULL,
     "further names that the model answers to, such as that which a client cannot be told to "
     "change; *: any name"},
    {"listen", LH_OPTION_TEXT, AT(listen), "127.0.0.1:8080", "HOST:PORT", 0, 0, NULL,
     "address of the public API; where others reach it, it needs --api-key-file or "
     "--insecure-no-keys"},
    {"ollama-listen", LH_OPTION_TEXT, AT(ollama_listen), "", "HOST:PORT", 0, 0, NULL,
     "a second address of the public API, for clients of Ollama, which look for it at "
     "127.0.0.1:11434; keys and certificates are those of --listen; default: none"},
    {"allowed-hosts", LH_OPTION_TEXT, AT(allowed_hosts), "", "A,B,...", 0, 0, NULL,
     "host names, beside localhost, that requests to the API may be for, such as that of a proxy "
     "before it; *: any; default: localhost alone where --listen is on loopback, otherwise any"},
    {"cors-origin", LH_OPTION_TEXT, AT(cors_origin), "", "A,B,...", 0, 0, NULL,
     "origins, such as https://chat.example, whose pages may use the API from a browser; default: "
     "none"},
    {"max-connections", LH_OPTION_NUMBER, AT(max_connections), "4096", "N", LH_CONNECTIONS_MIN,
     65536, NULL,
     "connections of clients at a time, at each address of the API; where they run short, some "
     "that wait for their client "
     "are closed; fewer where the limit of descriptors has no room for them"},
    {"max-connections-per-address", LH_OPTION_NUMBER, AT(max_connections_per_address), "0", "N", 0,
     65536, NULL, "of one address; 0: any number, as behind a proxy"},
    {"api-key-file", LH_OPTION_TEXT, AT(api_key_file), "", "PATH", 0, 0, NULL,
     "file of the SHA-256 of each key that clients may show as \"Authorization: Bearer KEY\", "
     "readable by its owner only; longhaul-gateway key makes its lines, SIGHUP has it read again; "
     "default: no key is needed"},
    LH_OPTION_PEM_FILE(lh_gateway_settings, api_tls_cert, "api-tls-cert",
                       "PEM certificate of the public API, with those that vouch for it behind "
                       "it: clients use https then; default: http"),
    LH_OPTION_PEM_FILE(lh_gateway_settings, api_tls_key, "api-tls-key",
                       "PEM key of that certificate, readable by its owner only; SIGHUP has both "
                       "files read again"),
    {"insecure-no-keys", LH_OPTION_FLAG, AT(insecure_no_keys), "0", NULL, 0, 0, NULL,
     "allow an API beyond loopback without keys: anyone who reaches it can use it, and see in "
     "/fleet and /trace what others do"},
    {"key-requests-per-minute", LH_OPTION_NUMBER, AT(key_requests_per_minute), "0", "N", 0,
     LH_KEY_RATE_MAX, NULL,
     "requests in a minute of a client whose line of --api-key-file says nothing else; 0: any"},
    {"key-tokens-per-minute", LH_OPTION_NUMBER, AT(key_tokens_per_minute), "0", "N", 0,
     LH_KEY_RATE_MAX, NULL, "its tokens in a minute, of prompts and answers; 0: any"},
    {"key-concurrent-requests", LH_OPTION_NUMBER, AT(key_concurrent_requests), "0", "N", 0,
     LH_KEY_RATE_MAX, NULL, "its requests at a time; 0: any"},
    {"reading-ms-per-minute", LH_OPTION_NUMBER, AT(reading_ms_per_minute), "20000", "N", 0,
     LH_KEY_RATE_MAX, NULL,
     "processor time in a minute for reading the requests of a client (its texts, templates and "
     "forms) whose line of --api-key-file says nothing else, or of an address where there are no "
     "keys; 0: any"},
    {"fleet-listen", LH_OPTION_TEXT, AT(fleet_listen), "127.0.0.1:7100", "HOST:PORT", 0, 0, NULL,
     "address of the fleet port, which workers reach"},
    {"metrics-listen", LH_OPTION_TEXT, AT(metrics_listen), "", "HOST:PORT", 0, 0, NULL,
     "address of the operator's port: /metrics for Prometheus, /health, /readyz and /livez as on "
     "the "
     "public API, all without a key; off: none. Default: " LH_GATEWAY_METRICS_LISTEN
     ", or none where that port is taken"},
    LH_OPTION_TLS_CERT(lh_gateway_settings, program,
                       "PEM certificate of the gateway, with the subjectAltName " LH_TLS_GATEWAY_URI
                       ": the fleet port then takes TLS 1.3 with client certificates alone"),
    LH_OPTION_TLS_KEY(lh_gateway_settings, program),
    LH_OPTION_TLS_CA(lh_gateway_settings, program),
    LH_OPTION_STATE_DIR(
        lh_gateway_settings, state_dir,
        "folder for what must outlive the gateway: where no --tls-cert is given, "
        "its own CA, which makes the fleet port take TLS 1.3, and which workers join "
        "by a token (longhaul-gateway token). Default, where --fleet-listen is beyond "
        "loopback: $STATE_DIRECTORY, else /var/lib/longhaul/gateway for root, else "
        "~/.local/state/longhaul/gateway"),
    {"certificate-life", LH_OPTION_TEXT, AT(certificate_life), "30d", "TIME", 0, 0, NULL,
     "for how long certificates of that CA are good: a number and s, m, h or d, 10s to 365d; "
     "workers renew them when a third is left"},
    LH_OPTION_INSECURE_PLAINTEXT(lh_gateway_settings, program,
                                 "a fleet port beyond loopback without TLS: anyone who "
                                 "reaches it can read prompts and forge tokens"),
    {"site", LH_OPTION_TEXT, AT(site), "", "NAME", 0, 0, NULL,
     "the gateway's own site: a first worker of the same site is reached without TLS"},
    {"sites", LH_OPTION_TEXT, AT(sites), "", "A,B,...", 0, 0, NULL,
     "order of the sites along the chain; default: by name"},
    {"workers", LH_OPTION_NUMBER, AT(workers), "0", "N", 0, LH_WORKERS_MAX, NULL,
     "how many workers to wait for before the first chain is formed; 0: those that have registered "
     "and are stable"},
    {"replicas", LH_OPTION_NUMBER, AT(replicas), "1", "N", 1, LH_REPLICAS_MAX, NULL,
     "how many chains of the model: the workers are dealt into so many complete ones where they "
     "can hold it so often, and each request goes to the one that is expected to be through with "
     "it first"},
    {"spot-check", LH_OPTION_TEXT, AT(spot_check), "0", "RATE", 0, 0, NULL,
     "share of the answers, 0 to 1, that are computed again on another of --replicas while that "
     "rests, and compared: so a worker that gives wrong tokens is found, and left out; 0: none"},
    {"stages", LH_OPTION_NUMBER, AT(stages), "0", "N", 0, 64, NULL,
     "how many workers a chain has; 0: all that are there"},
    {"tensor-parallel", LH_OPTION_CHOICE, AT(tensor_parallel), "auto", NULL, 0, 0,
     LH_TEAM_POLICY_CHOICES,
     "how many workers of a site compute each stage together, of those that have --listen-members: "
     "each holds a part of every matrix, and all of them meet four times in each layer, so that "
     "their network has to be fast. auto: as many as make the objective's figure best (without "
     "one: a token fastest), by what machines and links have measured, which may be none; a "
     "number: wherever there are so many. Who finds no team has a stage of its own"},
    {"objective", LH_OPTION_CHOICE, AT(objective), "off", NULL, 0, 0, "off|ttft|tpot|throughput",
     "what the chain is to be good at: the first token of a prompt, the time per token of one "
     "sequence, or tokens a second of all. The first one is found by what machines measured at "
     "their start. While it serves, a better one is looked for by what its "
     "stages and the links between sites have measured: which workers, in which order, with which "
     "layers; it moves there where that gains more than it costs. off: every worker has a place, "
     "in the order of --sites"},
    {"token-ms-max", LH_OPTION_NUMBER, AT(token_ms_max), "0", "MS", 0, 3600000, NULL,
     "with --objective throughput: no token of an answer is to take longer; 0: no bound"},
    {"plan-delay-ms", LH_OPTION_NUMBER, AT(plan_delay_ms), "1500", "MS", 0, 600000, NULL,
     "for how long the workers must have been the same before a chain is formed"},
    {"rebalance", LH_OPTION_CHOICE, AT(rebalance), "auto", NULL, 0, 0, "auto|off",
     "auto: the chain changes for workers that have come or come back where its slowest stage "
     "becomes a fifth faster or more; the new stages are loaded while the old ones serve. off: a "
     "spare waits until it is needed"},
    {"rebalance-delay-ms", LH_OPTION_NUMBER, AT(rebalance_delay_ms), "10000", "MS", 1, 3600000,
     NULL,
     "for how long workers must have been there before the chain changes for their sake; six times "
     "as long, or longer where it does not last, lie between two such changes"},
    {"cover", LH_OPTION_CHOICE, AT(cover), "disk", NULL, 0, 0, "disk|off",
     "while the chain serves, workers fetch to their disks what they would need after the loss of "
     "another one, so that such a loss waits for no link"},
    {"cover-share", LH_OPTION_NUMBER, AT(cover_share), "10", "PERCENT", 1, 100, NULL,
     "how much of its link each of them may take for that"},
    {"survey-bytes", LH_OPTION_BYTES, AT(survey_bytes), "64M", "BYTES", 0, (int64_t)1 << 50, NULL,
     "how much may be sent in an hour, by all workers together, to measure links between sites "
     "that "
     "no chain uses, one at a time and none for more than a hundredth of its time; 0: they are not "
     "measured"},
    {"renew-ms", LH_OPTION_NUMBER, AT(renew_ms), "500", "MS", 50, 60000, NULL,
     "how often workers report"},
    {"lease-ms", LH_OPTION_NUMBER, AT(lease_ms), "3000", "MS", 200, 600000, NULL,
     "after how long without a report a worker is taken for gone"},
    {"context", LH_OPTION_NUMBER, AT(context), "0", "POSITIONS", 0, 1 << 24, NULL,
     "positions of a sequence, prompt and answer; 0: the model's"},
    {"rows-max", LH_OPTION_NUMBER, AT(rows_max), "512", "ROWS", 1, 8192, NULL,
     "rows of one step at most"},
    {"overlap", LH_OPTION_TEXT, AT(overlap), "auto", "SPEC", 0, 0, NULL,
     "how prompts are cut, so that stages compute while others' results travel: auto: by what has "
     "been measured; off; or rows=N[,columns=K]: chunks of N rows, each stage's result in K column "
     "shards"},
    {"step-budget-ms", LH_OPTION_NUMBER, AT(step_budget_ms), "50", "MS", 0, 60000, NULL,
     "while others' tokens are drawn a prompt is cut so that no stage is predicted to work longer "
     "on one piece; a token waits for one such piece at each stage at most. Less is smoother, more "
     "gets prompts through sooner; 0: prompts are cut for themselves alone"},
    {"activations", LH_OPTION_CHOICE, AT(activations), "q8", NULL, 0, 0, "q8|q16",
     "how activations meet quantized weights: q8: rounded to int8 in blocks of 32, as in "
     "llama.cpp; q16: int8 twice, the second time of what the first left: nearly exact, at about "
     "twice the time of a prompt"},
    {"gpu-math", LH_OPTION_CHOICE, AT(gpu_math), "exact", NULL, 0, 0, "exact|fast",
     "how workers' GPUs multiply: exact: with the bits of processors; fast: by cuBLAS on tensor "
     "cores, which rounds weights and activations to their matrix's type (quantized: to F16, for "
     "many rows), so that answers depend on what computes which stage, and have a fingerprint of "
     "their own"},
    {"kv-type", LH_OPTION_CHOICE, AT(kv_type), "f32", NULL, 0, 0, "f32|f16|q8",
     "number format of keys and values in the workers' KV caches: f32: as they are computed; f16: "
     "twice the context in the same memory; q8: 8 bits in blocks of 32, three and a half times; "
     "both round (docs/BENCHMARKS.md has what that costs), each the same on every chain"},
    {"wire", LH_OPTION_CHOICE, AT(wire), "f32", NULL, 0, 0, "f32|f16|q8|auto",
     "number format between stages: f32 gives the same tokens however the model is split, f16 "
     "halves the bytes, q8 halves them again; both round (docs/BENCHMARKS.md has what that costs); "
     "auto: f16, or q8 on a hop that holds up prompts where --wire-allow-q8 is given"},
    {"wire-allow-q8", LH_OPTION_FLAG, AT(wire_allow_q8), "0", NULL, 0, 0, NULL,
     "let --wire auto use q8 on hops that are slower than every stage: half the bytes of f16, "
     "rounded to 8 bits"},
    {"max-sequences", LH_OPTION_NUMBER, AT(max_sequences), "32", "N", 1, 1024, NULL,
     "sequences that run at once, on each chain"},
    {"max-queue", LH_OPTION_NUMBER, AT(max_queue), "256", "N", 0, 65536, NULL,
     "sequences that may wait besides; one more is refused with 429. One client's key has seven "
     "eighths of these and of --max-sequences at most"},
    {"request-timeout", LH_OPTION_NUMBER, AT(request_timeout), "600", "SECONDS", 0,
     LH_OPENAI_TIMEOUT_S_MAX, NULL,
     "how long a request may take in all, its time in the queue included; one that has no token "
     "yet is answered 408; 0: any time"},
    {"chat-template", LH_OPTION_TEXT, AT(chat_template), "", "FILE", 0, 0, NULL,
     "chat template, in Jinja, in place of the one in the model's file"},
    {"chat-template-kwargs", LH_OPTION_TEXT, AT(chat_template_kwargs), "{}", "JSON", 0, 0, NULL,
     "variables of the chat template, such as {\"enable_thinking\": false}; a request's own "
     "chat_template_kwargs go before"},
    {"reasoning-format", LH_OPTION_CHOICE, AT(reasoning_format), "auto", NULL, 0, 0, "auto|none",
     "auto: what a model thinks before it answers is told apart from its answer, as "
     "reasoning_content; none: it stays in the answer, marks and all. A request's reasoning_format "
     "goes before"},
    {"template-date", LH_OPTION_TEXT, AT(template_date), "", "YYYY-MM-DD", 0, 0, NULL,
     "the day that a chat template may tell the model; default: today in UTC, which changes the "
     "tokens of its prompts at midnight"},
    {"default-temperature", LH_OPTION_TEXT, AT(default_temperature), "", "NUMBER", 0, 0, NULL,
     "temperature of requests that do not say, 0 to 2; default: the model file's "
     "general.sampling.temp, else 1"},
    {"default-top-p", LH_OPTION_TEXT, AT(default_top_p), "", "NUMBER", 0, 0, NULL,
     "their top_p, above 0 and at most 1; default: the file's general.sampling.top_p, else 1"},
    {"default-top-k", LH_OPTION_TEXT, AT(default_top_k), "", "NUMBER", 0, 0, NULL,
     "their top_k, 0: off; default: the file's general.sampling.top_k, else 0"},
    {"default-min-p", LH_OPTION_TEXT, AT(default_min_p), "", "NUMBER", 0, 0, NULL,
     "their min_p, 0 to 1; default: the file's general.sampling.min_p, else 0"},
    {"default-repetition-penalty", LH_OPTION_TEXT, AT(default_repetition_penalty), "", "NUMBER", 0,
     0, NULL,
     "their repetition_penalty, 0.1 to 10, 1: off; default: the file's "
     "general.sampling.penalty_repeat, else 1"},
    {"prefix-cache", LH_OPTION_CHOICE, AT(prefix_cache), "on", NULL, 0, 0, "on|off",
     "keep what was computed in the KV caches of the workers as long as there is room, and share "
     "it with requests of the same API key that begin alike"},
    {"step-timeout-ms", LH_OPTION_NUMBER, AT(step_timeout_ms), "30000", "MS", 100, 3600000, NULL,
     "without any progress for so long a chain is formed again; and where it is known what steps "
     "take, when one has been under way for twenty times as long, and a tenth of this"},
    {"replay-timeout-ms", LH_OPTION_NUMBER, AT(replay_timeout_ms), "4500", "MS", 0, 3600000, NULL,
     "how long sequences stand still, when a chain has broken and nothing takes over, before they "
     "fail"},
    {"takeover-timeout-ms", LH_OPTION_NUMBER, AT(takeover_timeout_ms), "60000", "MS", 0, 3600000,
     NULL,
     "how long they wait without a further byte while other workers fetch and load what was lost"},
    {"drain-timeout", LH_OPTION_NUMBER, AT(drain_timeout), "30", "SECONDS", 0, 86400, NULL,
     "how long requests in progress may go on after SIGTERM; a second signal ends them at once"},
    {"strict-params", LH_OPTION_FLAG, AT(strict_params), "0", NULL, 0, 0, NULL,
     "refuse requests with unknown fields"},
    {"traces", LH_OPTION_NUMBER, AT(traces), "64", "N", 0, 4096, NULL,
     "of how many of the last requests GET /trace/{id} can tell; 0: nothing is traced"},
    {"logits-digest", LH_OPTION_FLAG, AT(logits_digest), "0", NULL, 0, 0, NULL,
     "log a digest of the logits with every token, and tell it in the answers: for comparing runs "
     "bit for bit"},
    LH_OPTION_CONGESTION_CONTROL(lh_gateway_settings, program),
    LH_OPTION_HOP_PROBE_BUDGET(lh_gateway_settings, program),
    LH_OPTION_SANDBOX(lh_gateway_settings, program),
    LH_OPTION_LOG_LEVEL(lh_gateway_settings, program),
    LH_OPTION_LOG_FORMAT(lh_gateway_settings, program),
};

const lh_option_table lh_gateway_option_table = {
    .program = "longhaul-gateway",
    .summary = "Serves a language model through a chain of workers, with an OpenAI-compatible API",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .commands = lh_gateway_commands,
    .command_count = LH_GATEWAY_COMMANDS,
};

/* As for the fleet port: what is open to others is so because somebody has said so. */
static lh_status check_api_address(const lh_gateway_settings *settings, const char *flag,
                                   const char *listen, lh_error *error) {
    lh_address address;
    lh_error cause;
    bool is_address = lh_address_parse(listen, &address, &cause) == LH_OK;
    if (!is_address && listen[0] != ':') /* ":8080" is all addresses */
        return lh_fail(error, LH_ERR_INVALID, "%s: %.290s", flag, cause.message);
    if ((is_address && lh_address_is_loopback(&address)) || settings->api_key_file[0] ||
        settings->insecure_no_keys)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID,
                   "%s %.200s is reachable by others: give --api-key-file, or "
                   "--insecure-no-keys if all who reach it may use it",
                   flag, listen);
}

static lh_status check_api_port(const lh_gateway_settings *settings, lh_error *error) {
    lh_allowed_hosts hosts;
    lh_error cause;
    if (lh_allowed_hosts_parse(settings->allowed_hosts, true, &hosts, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--allowed-hosts: %.290s", cause.message);
    if (lh_cors_check(settings->cors_origin, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--cors-origin: %.290s", cause.message);
    if (!settings->api_tls_cert[0] != !settings->api_tls_key[0])
        return lh_fail(error, LH_ERR_INVALID, "--api-tls-cert and --api-tls-key go together");
    lh_status status = check_api_address(settings, "--listen", settings->listen, error);
    if (status != LH_OK || !settings->ollama_listen[0])
        return status;
    return check_api_address(settings, "--ollama-listen", settings->ollama_listen, error);
}

static lh_status check_fleet_port(const lh_gateway_settings *settings, lh_error *error) {
    lh_address address;
    lh_error cause;
    lh_status status = lh_program_options_check(&settings->program, error);
    if (status != LH_OK)
        return status;
    if (lh_address_parse(settings->fleet_listen, &address, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--fleet-listen: %.290s", cause.message);
    status = lh_operator_port_check(settings->metrics_listen, error);
    if (status != LH_OK)
        return status;
    if (lh_program_options_have_tls(&settings->program) && settings->state_dir[0])
        return lh_fail(error, LH_ERR_INVALID,
                       "--state-dir is for a CA of the gateway's own, --tls-cert for another one: "
                       "give one of them");
    int64_t life_s;
    status = lh_gateway_settings_certificate_life(settings, &life_s, error);
    if (status != LH_OK)
        return status;
    if (settings->wire_allow_q8 && strcmp(settings->wire, "auto") != 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "--wire-allow-q8 goes with --wire auto, not with --wire %s", settings->wire);
    return LH_OK;
}

bool lh_gateway_settings_have_own_ca(const lh_gateway_settings *settings) {
    lh_address address;
    lh_error ignored;
    bool is_loopback = lh_address_parse(settings->fleet_listen, &address, &ignored) == LH_OK &&
                       lh_address_is_loopback(&address);
    return !lh_program_options_have_tls(&settings->program) &&
           (settings->state_dir[0] || (!is_loopback && !settings->program.insecure_plaintext));
}

lh_status lh_gateway_settings_certificate_life(const lh_gateway_settings *settings,
                                               int64_t *seconds, lh_error *error) {
    return lh_duration_parse("--certificate-life", settings->certificate_life, 10, 365 * 86400,
                             seconds, error);
}

lh_status lh_gateway_settings_set_sampling(const lh_gateway_settings *settings,
                                           lh_sampling_defaults *defaults, lh_error *error) {
    const struct {
        const char *flag, *number;
        lh_sampling_field field;
    } given[] = {
        {"temperature", settings->default_temperature, LH_SAMPLING_TEMPERATURE},
        {"top-p", settings->default_top_p, LH_SAMPLING_TOP_P},
        {"top-k", settings->default_top_k, LH_SAMPLING_TOP_K},
        {"min-p", settings->default_min_p, LH_SAMPLING_MIN_P},
        {"repetition-penalty", settings->default_repetition_penalty,
         LH_SAMPLING_REPETITION_PENALTY},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        lh_error cause;
        if (given[i].number[0] &&
            lh_sampling_defaults_set(defaults, given[i].field, given[i].number, &cause) != LH_OK)
            return lh_fail(error, LH_ERR_INVALID, "--default-%s: %.200s", given[i].flag,
                           cause.message);
    }
    return LH_OK;
}

/* An order, or a number of stages, that is given leaves nothing to look for. */
static lh_status check_objective(const lh_gateway_settings *settings, lh_error *error) {
    bool is_off = strcmp(settings->objective, "off") == 0;
    if (!is_off && (settings->sites[0] || settings->stages > 0))
        return lh_fail(error, LH_ERR_INVALID,
                       "--objective finds the order of the sites and the number of stages by "
                       "itself: give it without --sites and --stages, or those without it");
    if (settings->token_ms_max > 0 && strcmp(settings->objective, "throughput") != 0)
        return lh_fail(error, LH_ERR_INVALID, "--token-ms-max goes with --objective throughput");
    return LH_OK;
}

lh_status lh_gateway_settings_spot_rate(const lh_gateway_settings *settings, double *rate,
                                        lh_error *error) {
    char *end;
    *rate = strtod(settings->spot_check, &end);
    if (end == settings->spot_check || *end || !(*rate >= 0 && *rate <= 1))
        return lh_fail(error, LH_ERR_INVALID,
                       "--spot-check %.100s is no share: give a number from 0 to 1, such as 0.05",
                       settings->spot_check);
    return LH_OK;
}

static lh_status check_spot_check(const lh_gateway_settings *settings, lh_error *error) {
    double rate;
    lh_status status = lh_gateway_settings_spot_rate(settings, &rate, error);
    if (status != LH_OK || rate == 0)
        return status;
    if (settings->replicas < 2)
        return lh_fail(error, LH_ERR_INVALID,
                       "--spot-check goes with --replicas 2 or more: an answer is checked by "
                       "another chain of the model");
    if (strcmp(settings->gpu_math, "fast") == 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "--spot-check goes with --gpu-math exact: fast answers of two machines may "
                       "differ though both are sound");
    return LH_OK;
}

lh_team_policy lh_gateway_settings_teams(const lh_gateway_settings *settings) {
    return lh_team_policy_parse(settings->tensor_parallel);
}

lh_status lh_gateway_settings_check(const lh_gateway_settings *settings, lh_error *error) {
    lh_status status = check_api_port(settings, error);
    if (status == LH_OK)
        status = check_fleet_port(settings, error);
    if (status == LH_OK)
        status = check_objective(settings, error);
    if (status == LH_OK)
        status = check_spot_check(settings, error);
    if (status != LH_OK)
        return status;
    if (settings->lease_ms < 2 * settings->renew_ms)
        return lh_fail(error, LH_ERR_INVALID, "--lease-ms must be at least twice --renew-ms");
    if (!settings->api_key_file[0] &&
        (settings->key_requests_per_minute || settings->key_tokens_per_minute ||
         settings->key_concurrent_requests))
        return lh_fail(
            error, LH_ERR_INVALID,
            "--key-requests-per-minute, --key-tokens-per-minute and --key-concurrent-requests go "
            "with --api-key-file: without keys nobody knows whose a request is");
    lh_sampling_defaults sampling = lh_sampling_api_defaults;
    status = lh_gateway_settings_set_sampling(settings, &sampling, error);
    if (status != LH_OK)
        return status;
    lh_overlap_spec overlap;
    lh_error cause;
    if (lh_overlap_spec_parse(settings->overlap, &overlap, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--overlap %.300s", cause.message);
    if (overlap.mode == LH_OVERLAP_MANUAL && overlap.rows > settings->rows_max)
        return lh_fail(error, LH_ERR_INVALID, "--overlap rows=%u is over --rows-max %lld",
                       overlap.rows, (long long)settings->rows_max);
    if (lh_model_aliases_check(settings->model_alias, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--model-alias: %.290s", cause.message);
    return LH_OK;
}

static void allow_part(void *rules, const char *path) {
    lh_sandbox_rules_allow_read(rules, path);
}

void lh_gateway_settings_allow(const lh_gateway_settings *settings, lh_sandbox_rules *rules) {
    lh_program_rules_begin(&settings->program, rules);
    lh_program_rules_allow_tls(&settings->program, rules);
    rules->makes_code = true; /* PCRE2's compiler: gateway/text/pre_tokenizer.c */
    lh_sandbox_rules_allow_read_replaced(rules, settings->api_key_file);
    lh_sandbox_rules_allow_read_replaced(rules, settings->api_tls_cert);
    lh_sandbox_rules_allow_read_replaced(rules, settings->api_tls_key);
    lh_gguf_visit_parts(settings->model, allow_part, rules);
    lh_sandbox_rules_allow_read(rules, settings->chat_template);
    lh_program_rules_allow_listener(settings->listen, rules);
    if (settings->ollama_listen[0])
        lh_program_rules_allow_listener(settings->ollama_listen, rules);
    lh_program_rules_allow_listener(settings->fleet_listen, rules);
    lh_program_rules_allow_listener(
        lh_operator_port_address(settings->metrics_listen, LH_GATEWAY_METRICS_LISTEN), rules);
}
