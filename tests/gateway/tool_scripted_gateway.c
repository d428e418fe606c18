/* The public API over the scripted engine: what a client sees at set times and on set failures, for
 * the tests in tests/system/test_http_raw.py. Prints the port, and serves until its standard input
 * ends. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "gateway/anthropic/anthropic.h"
#include "gateway/ollama/ollama.h"
#include "gateway/openai/api.h"
#include "gateway/responses/responses.h"
#include "tests/gateway/support/scripted_engine.h"
#include "tests/gateway/support/scripted_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct tool_options {
    int64_t request_timeout_ms, header_ms, body_ms, idle_ms, stall_ms, keep_alive_ms, body_bytes,
        bodies_bytes, answers_bytes, context, threads, connections, connections_per_address;
    int64_t key_requests, key_tokens, key_concurrent, reading_ms;
    const char *listen, *api_key_file, *allowed_hosts, *chat_template, *api_tls_cert, *api_tls_key;
    bool strict_params, logits_digest, keeps_thoughts;
} tool_options;

#define NUMBER(name, field, default_text, help)                                                    \
    {name, LH_OPTION_NUMBER, offsetof(tool_options, field), default_text, "N", 0, 0, NULL, help}

static const lh_option table[] = {
    NUMBER("request-timeout-ms", request_timeout_ms, "600000", "How long a request may take"),
    NUMBER("header-ms", header_ms, "10000", "Deadline of a request's headers"),
    NUMBER("body-ms", body_ms, "30000", "Deadline of a request's body"),
    NUMBER("idle-ms", idle_ms, "60000", "How long a connection may idle"),
    NUMBER("stall-ms", stall_ms, "30000", "How long a client may take nothing of its answer"),
    NUMBER("keep-alive-ms", keep_alive_ms, "15000", "Silence in a stream before a comment"),
    NUMBER("body-bytes", body_bytes, "8388608", "The largest body"),
    NUMBER("bodies-bytes", bodies_bytes, "268435456", "Bodies of all requests together"),
    NUMBER("answers-bytes", answers_bytes, "268435456", "Answers that are not read, together"),
    NUMBER("context", context, "4096", "The model's context"),
    NUMBER("connections", connections, "4096", "Connections at a time"),
    NUMBER("connections-per-address", connections_per_address, "0", "Of one address"),
    NUMBER("threads", threads, "4", "Threads of the server"),
    NUMBER("key-requests-per-minute", key_requests, "0", "Requests of a client in a minute"),
    NUMBER("key-tokens-per-minute", key_tokens, "0", "Tokens of a client in a minute"),
    NUMBER("key-concurrent-requests", key_concurrent, "0", "Requests of a client at a time"),
    NUMBER("reading-ms-per-minute", reading_ms, "0",
           "Time of the readers for a client in a minute"),
    {"listen", LH_OPTION_TEXT, offsetof(tool_options, listen), "127.0.0.1:0", "HOST:PORT", 0, 0,
     NULL, "Where it listens"},
    {"api-key-file", LH_OPTION_TEXT, offsetof(tool_options, api_key_file), "", "PATH", 0, 0, NULL,
     "Keys that clients may show; a line on standard input has it read again"},
    {"allowed-hosts", LH_OPTION_TEXT, offsetof(tool_options, allowed_hosts), "", "A,B,...", 0, 0,
     NULL, "Which hosts requests may be for, beside localhost"},
    {"api-tls-cert", LH_OPTION_TEXT, offsetof(tool_options, api_tls_cert), "", "PATH", 0, 0, NULL,
     "Certificate of the API"},
    {"api-tls-key", LH_OPTION_TEXT, offsetof(tool_options, api_tls_key), "", "PATH", 0, 0, NULL,
     "Its key"},
    {"chat-template", LH_OPTION_TEXT, offsetof(tool_options, chat_template), "", "FILE", 0, 0, NULL,
     "In place of the tiny model's"},
    {"keeps-thoughts", LH_OPTION_FLAG, offsetof(tool_options, keeps_thoughts), "", NULL, 0, 0, NULL,
     "Thoughts stay in the answers"},
    {"strict-params", LH_OPTION_FLAG, offsetof(tool_options, strict_params), "", NULL, 0, 0, NULL,
     "Refuse unknown fields"},
    {"logits-digest", LH_OPTION_FLAG, offsetof(tool_options, logits_digest), "", NULL, 0, 0, NULL,
     "Tell digests"},
};

static lh_openai_api_config make_config(const tool_options *options,
                                        lh_authenticator *authenticator) {
    lh_openai_api_config config = lh_openai_api_config_default();
    config.request_timeout_us = options->request_timeout_ms * 1000;
    config.http.listen = options->listen;
    config.http.allowed_hosts = options->allowed_hosts;
    config.http.connections = (uint32_t)options->connections;
    config.http.connections_per_address = (uint32_t)options->connections_per_address;
    config.http.threads = (uint32_t)options->threads;
    config.http.header_deadline_ms = (uint32_t)options->header_ms;
    config.http.body_deadline_ms = (uint32_t)options->body_ms;
    config.http.idle_deadline_ms = (uint32_t)options->idle_ms;
    config.http.stall_deadline_ms = (uint32_t)options->stall_ms;
    config.http.bodies_bytes_max = (uint64_t)options->bodies_bytes;
    config.http.answers_bytes_max = (uint64_t)options->answers_bytes;
    config.http.body_bytes_max = (uint64_t)options->body_bytes;
    config.keep_alive_ms = (uint32_t)options->keep_alive_ms;
    config.authenticator = authenticator;
    config.responses = &lh_responses;
    config.messages = &lh_anthropic;
    config.ollama = &lh_ollama;
    config.limits.strict = options->strict_params;
    config.limits.keeps_thoughts = options->keeps_thoughts;
    config.logits_digest = options->logits_digest;
    return config;
}

int main(int argc, char **argv) {
    const lh_option_table all = {.program = "scripted_gateway",
                                 .summary = "Serves the API over a scripted engine",
                                 .options = table,
                                 .count = sizeof table / sizeof table[0]};
    tool_options options = {0};
    lh_option_action action;
    lh_error error;
    if (lh_options_parse(&all, argc, argv, &options, stdout, &action, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    if (action == LH_OPTIONS_EXIT)
        return 0;
    lh_log_set_level(LH_LOG_DEBUG); /* leaves no line out, whatever is done to it */
    lh_engine *engine = scripted_engine_create();
    scripted_model *model = scripted_model_create_with((uint32_t)options.context);
    const lh_key_limits limits = {(uint32_t)options.key_requests, (uint32_t)options.key_tokens,
                                  (uint32_t)options.key_concurrent, (uint32_t)options.reading_ms};
    lh_authenticator *authenticator;
    if (lh_authenticator_create(options.api_key_file, &limits, lh_clock_us(), &authenticator,
                                &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    lh_served_model served = *scripted_model_served(model);
    lh_chat_template *chat_template = NULL;
    if (options.chat_template[0]) {
        if (lh_chat_template_load(options.chat_template, &chat_template, &error)) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        served.chat_template = chat_template;
    }
    lh_openai_api_config config = make_config(&options, authenticator);
    if (options.api_tls_cert[0] &&
        lh_http_tls_create(options.api_tls_cert, options.api_tls_key, &config.http.tls, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    lh_openai_api *api;
    if (lh_openai_api_open(&config, engine, &served, &api, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%u\n", lh_openai_api_port(api));
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
        lh_status status = lh_authenticator_reload(authenticator, lh_clock_us(), &error);
        printf("%s\n", status ? error.message : "read");
        fflush(stdout);
    }
    lh_openai_api_close(api);
    lh_http_tls_destroy(config.http.tls);
    lh_authenticator_destroy(authenticator);
    lh_chat_template_destroy(chat_template);
    scripted_model_destroy(model);
    scripted_engine_destroy(engine);
    return 0;
}
