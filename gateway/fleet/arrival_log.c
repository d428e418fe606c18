/* A limit for each kind of line. */
#include "gateway/fleet/arrival_log.h"

#include "common/base/log.h"

/* A few fleets: with restarts of all, or handovers, within a minute. */
#define AT_ONCE 256

void lh_arrival_log_init(lh_arrival_log *log) {
    const lh_log_limit many = {.at_once = AT_ONCE};
    *log = (lh_arrival_log){many, many, many};
}

void lh_arrival_log_came(lh_arrival_log *log, const lh_worker_report *report,
                         lh_registry_change change, int64_t now_us) {
    unsigned long long left_out;
    if (lh_log_limit_take(&log->came, now_us, &left_out))
        lh_log(LH_LOG_INFO, "fleet",
               "worker %s worker=%s site=%s isa=%s threads=%u memory_mib=%llu version=%s "
               "left_out=%llu",
               change == LH_REGISTRY_JOINED ? "joined" : "was restarted", report->name,
               report->site, report->isa, report->threads,
               (unsigned long long)(report->memory_bytes >> 20), report->version, left_out);
}

void lh_arrival_log_gone(lh_arrival_log *log, const lh_worker *worker, int64_t now_us) {
    unsigned long long left_out;
    if (lh_log_limit_take(&log->gone, now_us, &left_out))
        lh_log(LH_LOG_WARN, "fleet",
               "worker is gone worker=%s site=%s last_seen_ms=%lld "
               "left_out=%llu",
               worker->report.name, worker->report.site,
               (long long)((now_us - worker->renewed_us) / 1000), left_out);
}

void lh_arrival_log_spare(lh_arrival_log *log, const char *worker, const char *reason,
                          int64_t now_us) {
    unsigned long long left_out;
    if (lh_log_limit_take(&log->spare, now_us, &left_out))
        lh_log(LH_LOG_INFO, "fleet", "worker is a spare worker=%s reason=\"%s\" left_out=%llu",
               worker, reason, left_out);
}
