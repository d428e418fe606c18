/* Two looks give a rate; --watch goes on looking. */
#include "gateway/cli/status_command.h"

#include "common/base/clock.h"
#include "common/base/commands.h"
#include "common/base/terminal.h"
#include "gateway/cli/api_options.h"
#include "gateway/cli/fleet_fetch.h"
#include "gateway/cli/live_screen.h"
#include "gateway/cli/status_json.h"
#include "gateway/cli/status_page.h"

#include <stdio.h>
#include <string.h>

#define WIDTH_DEFAULT 80u /* where nobody knows how wide the terminal is */

typedef struct status_settings {
    const char *url, *api_key_file;
    int64_t interval, width;
    bool watch, json;
} status_settings;

#define AT(field) offsetof(status_settings, field)

static const lh_option options[] = {
    LH_OPTION_API_URL(status_settings, url),
    LH_OPTION_ADMIN_KEY_FILE(status_settings, api_key_file),
    {"watch", LH_OPTION_FLAG, AT(watch), "0", NULL, 0, 0, NULL,
     "draws it again and again, in place where there is a terminal; q or Ctrl-C ends it"},
    {"interval", LH_OPTION_NUMBER, AT(interval), "1", "SECONDS", 1, 3600, NULL,
     "the time between two looks; tokens a second are counted over it"},
    {"json", LH_OPTION_FLAG, AT(json), "0", NULL, 0, 0, NULL,
     "one JSON object on a line instead, for each look"},
    {"width", LH_OPTION_NUMBER, AT(width), "0", "COLUMNS", 0, 1000, NULL,
     "how wide to draw; 0: as wide as the terminal, 80 where there is none"},
};

const lh_option_table lh_status_command_options = {
    .program = "longhaul-gateway status",
    .summary = "shows a running gateway's fleet: workers, links, streams, and what holds it back; "
               "status 0 if requests can be served, 1 if not",
    .example = "longhaul-gateway status --watch",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* One look, and what is known of the one before. */
typedef struct status_looks {
    lh_fleet_document now;
    int64_t at_us, tokens; /* of the one before; at_us 0: there was none */
    double tokens_per_s;   /* between the two; below 0: not known */
} status_looks;

static lh_status look(const status_settings *settings, status_looks *looks, lh_error *error) {
    lh_fleet_document_reset(&looks->now);
    lh_status status = lh_fleet_fetch(settings->url, settings->api_key_file, &looks->now, error);
    if (status != LH_OK)
        return status;
    int64_t now_us = lh_clock_us(), tokens = looks->now.tokens - looks->tokens;
    looks->tokens_per_s = looks->at_us > 0 && tokens >= 0 && now_us > looks->at_us
                              ? (double)tokens * 1e6 / (double)(now_us - looks->at_us)
                              : -1;
    looks->tokens = looks->now.tokens;
    looks->at_us = now_us;
    return LH_OK;
}

static lh_status render(const status_settings *settings, const status_looks *looks,
                        lh_text_buffer *out) {
    const lh_status_page_style style = {.width = settings->width ? (uint32_t)settings->width
                                                                 : lh_terminal_width(WIDTH_DEFAULT),
                                        .has_colours = lh_terminal_wants_colours()};
    return settings->json ? lh_status_json_render(&looks->now, looks->tokens_per_s, out)
                          : lh_status_page_render(&looks->now, looks->tokens_per_s, &style, out);
}

/* ---- Once ---- */

/* A rate takes two looks; where nothing runs it is 0 at once. */
static lh_status look_twice(const status_settings *settings, status_looks *looks, lh_error *error) {
    lh_status status = look(settings, looks, error);
    if (status != LH_OK)
        return status;
    if (looks->now.running == 0) {
        looks->tokens_per_s = 0;
        return LH_OK;
    }
    lh_live_screen_wait(settings->interval * 1000);
    return look(settings, looks, error);
}

static lh_status show_once(const status_settings *settings, status_looks *looks, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = look_twice(settings, looks, error);
    if (status == LH_OK && render(settings, looks, &text) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the status");
    if (status == LH_OK)
        status = lh_text_buffer_print(&text, error);
    lh_text_buffer_reset(&text);
    if (status == LH_OK && strcmp(looks->now.state, "ready") != 0)
        status = LH_ERR_UNAVAILABLE; /* which the page has said */
    return status;
}

/* ---- Again and again ---- */

/* A gateway that does not answer may come back: its page says so meanwhile. */
static lh_status append_failure(const lh_error *error, bool is_json, lh_text_buffer *text) {
    if (is_json)
        return LH_OK;
    lh_status status = lh_text_buffer_append(text, error->message, strlen(error->message), NULL);
    return status == LH_OK ? lh_text_buffer_append(text, "\n", 1, NULL) : status;
}

/* One look, drawn. LH_ERR_INVALID: what is wrong stays so. */
static lh_status watch_once(const status_settings *settings, status_looks *looks, bool is_live,
                            lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = look(settings, looks, error);
    if (status == LH_OK)
        status = render(settings, looks, &text);
    else if (status != LH_ERR_INVALID)
        status = append_failure(error, settings->json, &text);
    if (status == LH_OK && !is_live && !settings->json)
        status = lh_text_buffer_append(&text, "\n", 1, NULL);
    if (status == LH_ERR_NO_MEMORY)
        lh_fail(error, status, "no memory for the status");
    if (status == LH_OK)
        status = is_live ? lh_live_screen_show(&text) : lh_text_buffer_print(&text, error);
    lh_text_buffer_reset(&text);
    return status;
}

static lh_status watch(const status_settings *settings, status_looks *looks, lh_error *error) {
    bool is_live = lh_live_screen_open(!settings->json);
    lh_status status;
    do
        status = watch_once(settings, looks, is_live, error);
    while (status == LH_OK && lh_live_screen_wait(settings->interval * 1000));
    lh_live_screen_close();
    return status;
}

int lh_status_command(int argc, char **argv) {
    status_settings settings;
    status_looks looks = {0};
    lh_error error = {0};
    int code;
    if (!lh_command_take_flags(&lh_status_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    lh_status status =
        settings.watch ? watch(&settings, &looks, &error) : show_once(&settings, &looks, &error);
    lh_fleet_document_reset(&looks.now);
    if (status == LH_OK)
        return 0;
    if (error.message[0])
        fprintf(stderr, "longhaul-gateway status: %s\n", error.message);
    return 1;
}
