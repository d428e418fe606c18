/* One look at the fleet, one table of checks. */
#include "gateway/cli/doctor_command.h"

#include "common/base/commands.h"
#include "common/doctor/findings_print.h"
#include "gateway/cli/api_options.h"
#include "gateway/cli/fleet_checks.h"
#include "gateway/cli/fleet_fetch.h"

#include <stdio.h>
#include <time.h>

typedef struct doctor_settings {
    const char *url, *api_key_file;
    bool json;
} doctor_settings;

#define AT(field) offsetof(doctor_settings, field)

static const lh_option options[] = {
    LH_OPTION_API_URL(doctor_settings, url),
    LH_OPTION_ADMIN_KEY_FILE(doctor_settings, api_key_file),
    {"json", LH_OPTION_FLAG, AT(json), "0", NULL, 0, 0, NULL, "one JSON object instead"},
};

const lh_option_table lh_doctor_command_options = {
    .program = "longhaul-gateway doctor",
    .summary = "looks for what is wrong with a running gateway's fleet, and says for each thing "
               "that it is fine, or what to do; status 0 if nothing is to be done, 1 if something "
               "is",
    .example = "longhaul-gateway doctor --url http://127.0.0.1:8090",
    .options = options,
    .count = sizeof options / sizeof options[0],
};

/* Where nobody answers, that is the finding. */
static lh_status examine(const doctor_settings *settings, lh_findings *findings, lh_error *error) {
    lh_fleet_document document = {0};
    lh_status status = lh_fleet_fetch(settings->url, settings->api_key_file, &document, error);
    if (status == LH_ERR_UNAVAILABLE || status == LH_ERR_TIMEOUT) {
        lh_findings_begin(findings, "gateway");
        lh_finding_advise(lh_findings_add(findings, LH_VERDICT_TO_DO, "", "%s", error->message),
                          "start it, or say with --url where its API listens");
        return LH_OK;
    }
    if (status == LH_OK && lh_fleet_checks_run(&document, time(NULL), findings) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for what was found");
    lh_fleet_document_reset(&document);
    return status;
}

int lh_doctor_command(int argc, char **argv) {
    doctor_settings settings;
    lh_findings findings = {0};
    lh_error error;
    int code;
    if (!lh_command_take_flags(&lh_doctor_command_options, argc - 1, argv + 1, &settings, &code))
        return code;
    lh_status status = examine(&settings, &findings, &error);
    if (status == LH_OK)
        status = lh_findings_print(&findings, settings.json, &error);
    size_t to_do = lh_findings_count(&findings, LH_VERDICT_TO_DO);
    lh_findings_reset(&findings);
    code = lh_command_finish(&lh_doctor_command_options, status, &error);
    return status == LH_OK ? to_do > 0 : code;
}
