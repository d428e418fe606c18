/* Names of workers, sites and chains. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LH_NAME_BYTES 64u /* 1 to 63 of [A-Za-z0-9._-] and the end */

bool lh_name_is_valid(const char *text);
