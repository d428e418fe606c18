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
    lh_log_format format = LH_LOG_TEXT;
    is_known = lh_log_format_parse(options->log_format, &format);
    assert(is_known);
    lh_log_set_format(format);
    lh_congestion_control_log(options->congestion_control);
}

void lh_program_options_read_host(const lh_program_options *options, lh_host_facts *facts) {
    lh_host_facts_read(facts, "/proc", "/sys/fs/cgroup");
    if (lh_host_facts_know(facts, LH_HOST_SLOW_START_AFTER_IDLE))
        lh_host_facts_set(facts, LH_HOST_SLOW_START_AFTER_IDLE,
                          lh_congestion_control_will_decay(options->congestion_control));
}

lh_status lh_program_options_open_tls(lh_program_options *options, lh_tls_identity_kind own,
                                      lh_error *error) {
    assert(!options->tls.credentials);
    options->tls.own = own;
    return lh_program_options_have_tls(options)
               ? lh_tls_credentials_create(&options->tls, &options->tls.credentials, error)
               : LH_OK;
}

void lh_program_options_reload_tls(const lh_program_options *options, const char *room) {
    lh_error error;
    assert(options->tls.credentials);
    if (lh_tls_credentials_reload(options->tls.credentials, &error) != LH_OK) {
        lh_log(LH_LOG_ERROR, room, "the certificates stay as they were: %s", error.message);
        return;
    }
    const lh_tls_description now = lh_tls_credentials_describe(options->tls.credentials);
    lh_log(LH_LOG_INFO, room, "certificates read again serial=%s expires=%s", now.serial,
           now.expires);
}

void lh_program_options_close_tls(lh_program_options *options) {
    lh_tls_credentials_destroy(options->tls.credentials);
    options->tls.credentials = NULL;
}
