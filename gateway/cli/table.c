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

lh_status lh_table_print_rendered(lh_status status, lh_text_buffer *list, lh_error *error) {
    if (status == LH_OK)
        status = lh_text_buffer_print(list, error);
    else
        lh_fail(error, status, "no memory for the list");
    lh_text_buffer_reset(list);
    return status;
}
