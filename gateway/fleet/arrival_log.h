/* What the log says of workers that come and go. A member, or in the clear anybody, may come and go
 * as often as it likes; a whole fleet that starts at once is told in full.
 *
 * Begun with lh_arrival_log_init. Thread: its owner's. */
#pragma once

#include "common/base/log_limit.h"
#include "gateway/fleet/registry.h"

typedef struct lh_arrival_log {
    lh_log_limit came, gone, spare;
} lh_arrival_log;

void lh_arrival_log_init(lh_arrival_log *log);
/* It joined, or was restarted. */
void lh_arrival_log_came(lh_arrival_log *log, const lh_worker_report *report,
                         lh_registry_change change, int64_t now_us);
/* It was not heard of for too long. */
void lh_arrival_log_gone(lh_arrival_log *log, const lh_worker *worker, int64_t now_us);
/* It has no place in the chain, for this reason. */
void lh_arrival_log_spare(lh_arrival_log *log, const char *worker, const char *reason,
                          int64_t now_us);
