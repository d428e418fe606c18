/* longhaul-link: links between sites, emulated in user space, since tc netem is not everywhere. */
#include "common/base/commands.h"
#include "common/base/log.h"
#include "common/base/stray_signals.h"
#include "link/line_words.h"
#include "link/sites.h"
#include "link/uplink.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#define USAGE_STATUS 2 /* common/base/commands.h */

typedef struct uplink_settings {
    const char *interface, *network, *rate, *delay, *jitter, *loss, *queue, *log_format;
} uplink_settings;

#define TEXT(name, field, default_text, placeholder, help)                                         \
    {                                                                                              \
        name,                                                                                      \
        LH_OPTION_TEXT,                                                                            \
        offsetof(uplink_settings, field),                                                          \
        default_text,                                                                              \
        placeholder,                                                                               \
        0,                                                                                         \
        0,                                                                                         \
        NULL,                                                                                      \
        help}

static const lh_option uplink_option_list[] = {
    TEXT("link-rate", rate, "0", "MBIT", "Mbit/s of what is sent, IP headers included; 0: any"),
    TEXT("link-delay", delay, "0", "MS",
         "how long each packet is on its way; the other end adds its own"),
    TEXT("link-jitter", jitter, "0", "MS",
         "by how much that wanders to either side; packets stay in order"),
    TEXT("link-loss", loss, "0", "PERCENT", "of packets that are lost, each for itself"),
    TEXT("link-queue", queue, "50", "MS",
         "the queue holds what the rate sends in this time; more is dropped"),
    TEXT("link-to", network, "", "NETWORK",
         "only what goes there, such as 10.77.0.0/16; default: all"),
    TEXT("link-interface", interface, "", "NAME",
         "network interface; default: by which one reaches --link-to, or everything"),
    {.name = "log-format",
     .kind = LH_OPTION_CHOICE,
     .offset = offsetof(uplink_settings, log_format),
     .default_text = "text",
     .choices = "text|json",
     .help = "how to write a line of the log: for people, or as one JSON object"},
};

static const lh_option_table uplink_table = {
    .program = "longhaul-link uplink",
    .summary =
        "lets what leaves this machine, or this container, by one interface go through a line "
        "with a rate and a delay; each end shapes what it sends. Needs CAP_NET_ADMIN, "
        "CAP_NET_RAW and /dev/net/tun",
    .example = "longhaul-link uplink --link-rate 100 --link-delay 10",
    .options = uplink_option_list,
    .count = sizeof uplink_option_list / sizeof uplink_option_list[0],
};

static lh_status read_line(const uplink_settings *settings, lh_line_settings *line,
                           lh_error *error) {
    const struct {
        const char *name, *text;
        double *value;
    } numbers[] = {{"rate", settings->rate, &line->rate_mbit},
                   {"delay", settings->delay, &line->delay_ms},
                   {"jitter", settings->jitter, &line->jitter_ms},
                   {"loss", settings->loss, &line->loss_percent},
                   {"queue", settings->queue, &line->queue_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!lh_line_number_read(numbers[i].text, numbers[i].value))
            return lh_fail(error, LH_ERR_INVALID, "--link-%s %.60s is no number from 0 on",
                           numbers[i].name, numbers[i].text);
    return LH_OK;
}

static int fail(const lh_error *error, int status) {
    lh_log_failure("longhaul-link", error->message);
    return status;
}

static void set_log_format(const char *name) {
    lh_log_format format = LH_LOG_TEXT;
    bool is_known = lh_log_format_parse(name, &format);
    assert(is_known); /* the option's choices are the log's names */
    lh_log_set_format(format);
}

static int uplink(int argc, char **argv) {
    uplink_settings settings;
    lh_uplink_options options;
    lh_option_action action;
    lh_error error;
    lh_status status =
        lh_options_parse(&uplink_table, argc - 1, argv + 1, &settings, stdout, &action, &error);
    if (status == LH_OK && action == LH_OPTIONS_EXIT)
        return 0;
    if (status == LH_OK)
        set_log_format(settings.log_format);
    options = (lh_uplink_options){.interface = settings.interface, .network = settings.network};
    if (status == LH_OK)
        status = read_line(&settings, &options.line, &error);
    if (status != LH_OK)
        return fail(&error, USAGE_STATUS);
    lh_stray_signals_ignore();
    return lh_link_uplink(&options, &error) == LH_OK ? 0 : fail(&error, 1);
}

static const lh_option_table sites_table = {
    .program = "longhaul-link sites",
    .arguments = "NAMESPACE NAMESPACE ...",
    .summary = "Links between network namespaces, steered by lines on standard input",
    .example = "longhaul-link sites home office attic",
};

static int sites(int argc, char **argv) {
    lh_error error;
    if (argc < 4 || argc - 2 > (int)LH_LINK_SITES_MAX) {
        fprintf(stderr, "longhaul-link sites: 2 to %u network namespaces are to be named\n",
                LH_LINK_SITES_MAX);
        return USAGE_STATUS;
    }
    lh_stray_signals_ignore();
    return lh_link_sites(argc - 2, argv + 2, &error) == LH_OK ? 0 : fail(&error, 1);
}

static const lh_command commands[] = {
    {"uplink", "what leaves this machine, or this container, by one interface", &uplink_table,
     uplink},
    {"sites", "between network namespaces, steered by lines on standard input", &sites_table,
     sites},
};

static const lh_option_table table = {
    .program = "longhaul-link",
    .summary = "Links between sites, emulated in user space: a rate, a delay, jitter and loss",
    .commands = commands,
    .command_count = sizeof commands / sizeof commands[0],
    .needs_command = true,
};

int main(int argc, char **argv) {
    int code;
    lh_error error;
    lh_option_action action;
    if (lh_commands_run(&table, argc, argv, stdout, stderr, &code))
        return code;
    return lh_options_parse(&table, argc, argv, NULL, stdout, &action, &error) == LH_OK
               ? 0
               : fail(&error, USAGE_STATUS);
}
