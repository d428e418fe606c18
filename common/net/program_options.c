/* What belongs together among the options of every program. */
#include "common/net/program_options.h"

#include "common/base/log.h"
#include "common/net/congestion_control.h"

#include <assert.h>

bool lh_program_options_have_tls(const lh_program_options *options) {
    return options->tls.certificate_file[0] != '\0';
}

lh_status lh_program_options_check(const lh_program_options *options, lh_error *error) {
    const lh_tls_options *tls = &options->tls;
    int given = (tls->certificate_file[0] != 0) + (tls->key_file[0] != 0) + (tls->ca_file[0] != 0);
    if (given != 0 && given != 3)
        return lh_fail(
            error, LH_ERR_INVALID,
            "--tls-cert, --tls-key and --tls-ca belong together: give all three or none");
    lh_error cause;
    if (lh_congestion_control_check(options->congestion_control, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "--congestion-control: %.300s", cause.message);
    return LH_OK;
}

void lh_program_options_apply(const lh_program_options *options) {
    lh_log_level level = LH_LOG_INFO;
    bool is_known = lh_log_level_parse(options->log_level, &level);
    assert(is_known); /* the option's choices are the log's names */
    lh_log_set_level(level);
    lh_congestion_control_log(options->congestion_control);
}
