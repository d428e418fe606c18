/* Names of workers, sites and chains. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* 1 to 63 of [A-Za-z0-9._-], neither "." nor "..", and the end. */
#define LH_NAME_BYTES 64u

bool lh_name_is_valid(const char *text);
