/* A number and a letter. */
#include "gateway/cli/duration.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static int64_t seconds_of(char unit) {
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    default:
        return 0;
    }
}

lh_status lh_duration_parse(const char *flag, const char *text, int64_t least_s, int64_t most_s,
                            int64_t *seconds, lh_error *error) {
    char *end = NULL;
    errno = 0;
    long long number = isdigit((unsigned char)text[0]) ? strtoll(text, &end, 10) : 0;
    int64_t unit = end && *end && !end[1] ? seconds_of(*end) : 0;
    if (errno || unit == 0 || __builtin_mul_overflow((int64_t)number, unit, seconds))
        return lh_fail(error, LH_ERR_INVALID,
                       "%s: '%.64s' is no time: a whole number and s, m, h or d, such as 90s or 1h",
                       flag, text);
    if (*seconds < least_s || *seconds > most_s)
        return lh_fail(error, LH_ERR_INVALID,
                       "%s: %.64s is not between %" PRId64 " and %" PRId64 " seconds", flag, text,
                       least_s, most_s);
    return LH_OK;
}
