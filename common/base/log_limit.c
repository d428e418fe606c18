/* A bucket of lines, kept as the time until which those that were written have paid. */
#include "common/base/log_limit.h"

#include "common/base/arithmetic.h"

#define LINE_US    INT64_C(2000000) /* that one line pays for */
#define AT_ONCE_US (4 * LINE_US)    /* paid ahead: five lines at once */

bool lh_log_limit_take(lh_log_limit *limit, int64_t now_us, unsigned long long *left_out) {
    limit->paid_until_us = lh_max_i64(limit->paid_until_us, now_us);
    if (limit->paid_until_us - now_us > AT_ONCE_US) {
        limit->left_out++;
        return false;
    }
    limit->paid_until_us += LINE_US;
    *left_out = limit->left_out;
    limit->left_out = 0;
    return true;
}
