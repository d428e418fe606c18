/* What a function does where one of its allocations fails. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

typedef lh_status short_memory_call(const void *context, lh_error *error);

/* Calls it with its first allocation failing, then its second, and so on until it needs no more:
 * each time it has to return LH_ERR_NO_MEMORY and a message. Returns how many allocations it
 * makes. */
uint32_t short_memory_try(short_memory_call *call, const void *context);
