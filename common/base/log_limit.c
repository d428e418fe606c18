/* A bucket of lines, kept as the time until which those that were written have paid. */
#include "common/base/log_limit.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"

#include <pthread.h>

#define LINE_US INT64_C(2000000) /* that one line pays for */
#define AT_ONCE 5u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool take(lh_log_limit *limit, int64_t now_us, unsigned long long *left_out) {
    int64_t ahead_us = LINE_US * ((limit->at_once ? limit->at_once : AT_ONCE) - 1);
    limit->paid_until_us = lh_max_i64(limit->paid_until_us, now_us);
    if (limit->paid_until_us - now_us > ahead_us && !lh_log_shows(LH_LOG_DEBUG)) {
        limit->left_out++;
        return false;
    }
    limit->paid_until_us += LINE_US;
    *left_out = limit->left_out;
    limit->left_out = 0;
    return true;
}

bool lh_log_limit_take(lh_log_limit *limit, int64_t now_us, unsigned long long *left_out) {
    pthread_mutex_lock(&mutex);
    bool is_taken = take(limit, now_us, left_out);
    pthread_mutex_unlock(&mutex);
    return is_taken;
}
