/* gmtime and strftime. */
#include "gateway/cli/table.h"

#include <stdio.h>
#include <time.h>

void lh_table_time(int64_t unix_s, char text[LH_TABLE_TIME_BYTES]) {
    time_t time = (time_t)unix_s;
    struct tm fields;
    if (!gmtime_r(&time, &fields) ||
        strftime(text, LH_TABLE_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &fields) == 0)
        snprintf(text, LH_TABLE_TIME_BYTES, "?");
}
