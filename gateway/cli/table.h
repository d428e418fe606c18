/* What the commands' lists have in common. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdint.h>

#define LH_TABLE_TIME_BYTES 32

/* Unix time as "2027-01-31T12:00:00Z". */
void lh_table_time(int64_t unix_s, char text[LH_TABLE_TIME_BYTES]);
/* Prints a list that was rendered with this status, and resets it. LH_ERR_IO: it could not be
 * written; else the status. */
lh_status lh_table_print_rendered(lh_status status, lh_text_buffer *list, lh_error *error);
