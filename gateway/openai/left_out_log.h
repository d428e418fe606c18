/* Remembers which kinds of what is left out of requests (left_out.h) the log has told of which
 * client, so that an agent that sends the same field with each request causes one line. Bounded:
 * where very many clients send very many kinds, the oldest are told again. Begun with zeroes.
 *
 * Thread: any. */
#pragma once

#include "common/base/log_limit.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LH_LEFT_OUT_LOG_MARKS 4096u

typedef struct lh_left_out_log {
    _Atomic(uint64_t) marks[LH_LEFT_OUT_LOG_MARKS]; /* of a client and a kind; 0: none */
} lh_left_out_log;

/* Whether this kind is to be told of this client now: for the first time, and `limit`, that of the
 * client's lines, allows it. Where it does not, a later request may. more: what the line says at
 * its end of lines before it (log_limit.h). */
bool lh_left_out_log_take(lh_left_out_log *log, uint64_t client, const char *kind,
                          lh_log_limit *limit, int64_t now_us, unsigned long long *more);
