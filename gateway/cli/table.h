/* What the commands' lists have in common. Thread: any. */
#pragma once

#include <stdint.h>

#define LH_TABLE_TIME_BYTES 32

/* Unix time as "2027-01-31T12:00:00Z". */
void lh_table_time(int64_t unix_s, char text[LH_TABLE_TIME_BYTES]);
