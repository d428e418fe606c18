/* Flags, one request, one chart. */
#include "gateway/cli/trace_command.h"

#include "common/base/commands.h"
#include "common/base/terminal.h"
#include "gateway/auth/api_key.h"
#include "gateway/cli/api_fetch.h"
#include "gateway/cli/api_options.h"
#include "gateway/trace/trace_chart_json.h"

#include <stdio.h>
#include <string.h>

#define WIDTH_DEFAULT 100u /* where nobody knows how wide the terminal is */

typedef struct trace_settings {
    const char *url, *api_key_file, *part;
    int64_t width;
} trace_settings;

#define AT(field) offsetof(trace_settings, field)

static const lh_option options[] = {
    LH_OPTION_API_URL(trace_settings, url),
    {"api-key-file", LH_OPTION_TEXT, AT(api_key_file), "", "PATH", 0, 0, NULL,
     "file with the API's key, readable by its owner only; default: no key is shown"},
    {"part", LH_OPTION_CHOICE, AT(part), "prompt", NULL, 0, 0, "prompt|all",
     "what to draw: up to the first token, or up to the end"},
    {"width", LH_OPTION_NUMBER, AT(width), "0", "COLUMNS", 0, 1000, NULL,
     "how wide to draw; 0: as wide as the terminal, 100 where there is none"},
};

const lh_option_table lh_trace_command_options = {
    .program = "longhaul-gateway trace",
    .arguments = "REQUEST-ID",
    .summary = "Draws what became of one of the gateway's last requests. The id is an "
               "answer's \"id\" or its x-request-id",
    .example = "longhaul-gateway trace chatcmpl-5f0e... --part all",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

static uint32_t width_of(const trace_settings *settings) {
    return settings->width ? (uint32_t)settings->width : lh_terminal_width(WIDTH_DEFAULT);
}

static lh_status fetch(const trace_settings *settings, const char *id, lh_text_buffer *body,
                       lh_error *error) {
    char key[LH_API_KEY_BYTES] = "", reason[200];
    long http_status = 0;
    lh_status status = LH_OK;
    if (settings->api_key_file[0])
        status = lh_api_key_read(settings->api_key_file, key, error);
    if (status == LH_OK)
        status = lh_api_fetch(settings->url, "/trace/", id, key, &http_status, body, error);
    explicit_bzero(key, sizeof key);
    if (status != LH_OK || http_status == 200)
        return status;
    lh_chart_parse_error(body->bytes, body->length, reason, sizeof reason);
    if (http_status == 401)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.120s wants a key: give --api-key-file with the right one", settings->url);
    if (!reason[0])
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.120s answers HTTP %ld; is this the gateway's API?", settings->url,
                       http_status);
    return lh_fail(error, LH_ERR_NOT_FOUND, "%.200s", reason);
}

static lh_status draw(const trace_settings *settings, const char *id, lh_error *error) {
    lh_text_buffer body = {0}, text = {0};
    lh_chart chart;
    lh_status status = fetch(settings, id, &body, error);
    if (status == LH_OK)
        status = lh_chart_parse(body.bytes, body.length, &chart, error);
    lh_text_buffer_reset(&body);
    if (status != LH_OK)
        return status;
    const lh_chart_style style = {.width = width_of(settings),
                                  .whole = strcmp(settings->part, "all") == 0,
                                  .colours = lh_terminal_wants_colours()};
    status = lh_chart_render(&chart, &style, &text);
    lh_chart_reset(&chart);
    if (status != LH_OK)
        lh_fail(error, status, "no memory for the chart");
    else
        status = lh_text_buffer_print(&text, error);
    lh_text_buffer_reset(&text);
    return status;
}

/* The id, taken out of the arguments: the first one that is neither a flag nor a flag's value.
 * NULL: there is none. */
static const char *take_id(int *argc, char **argv) {
    for (int i = 2; i < *argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            const char *id = argv[i];
            memmove(argv + i, argv + i + 1, (size_t)(*argc - i) * sizeof *argv);
            --*argc;
            return id;
        }
        i += !strchr(argv[i], '=') && strcmp(argv[i], "--help") != 0 &&
             strcmp(argv[i], "--version") != 0;
    }
    return NULL;
}

int lh_trace_command(int argc, char **argv) {
    trace_settings settings;
    lh_error error;
    int code;
    const char *id = take_id(&argc, argv);
    if (!lh_command_take_flags(&lh_trace_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    if (!id)
        return lh_command_refuse(
            &lh_trace_command_options,
            "whose trace? Give a request's id: longhaul-gateway trace chatcmpl-...");
    return lh_command_finish(&lh_trace_command_options, draw(&settings, id, &error), &error);
}
