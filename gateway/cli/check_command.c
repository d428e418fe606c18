/* One GET, one line. */
#include "gateway/cli/check_command.h"

#include "common/base/commands.h"
#include "gateway/cli/api_fetch.h"
#include "gateway/cli/api_options.h"

#include <stdio.h>

typedef struct check_settings {
    const char *url;
    bool ready;
} check_settings;

static const lh_option options[] = {
    LH_OPTION_API_URL(check_settings, url),
    {"ready", LH_OPTION_FLAG, offsetof(check_settings, ready), "0", NULL, 0, 0, NULL,
     "well only if requests can be served now; without it, also while workers are missing"},
};

const lh_option_table lh_check_command_options = {
    .program = "longhaul-gateway check",
    .summary = "asks a running gateway how it is: status 0 if it is well, 1 if not",
    .example = "longhaul-gateway check --ready",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

static lh_status check(const check_settings *settings, lh_error *error) {
    lh_text_buffer body = {0};
    long http_status = 0;
    lh_status status = lh_api_fetch(settings->url, settings->ready ? "/readyz" : "/livez", "", "",
                                    &http_status, &body, error);
    if (status == LH_OK && http_status == 200)
        printf("%.*s\n", (int)body.length, body.bytes ? body.bytes : "");
    else if (status == LH_OK)
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "HTTP %ld: %.*s", http_status,
                         body.length < 300 ? (int)body.length : 300, body.bytes ? body.bytes : "");
    lh_text_buffer_reset(&body);
    return status;
}

int lh_check_command(int argc, char **argv) {
    check_settings settings;
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_check_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    return lh_command_finish(&lh_check_command_options, check(&settings, &error), &error);
}
