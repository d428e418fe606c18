/* Further names that a model answers to: "gpt-4o-mini,team/chat"; "*" stands for any name. Thread:
 * any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define LH_MODEL_ALIASES_MAX 64u

/* LH_ERR_INVALID: a name is empty, longer than 255 bytes or has a control character or a space in
 * it; LH_ERR_LIMIT: there are more than LH_MODEL_ALIASES_MAX. `list` may be "". */
lh_status lh_model_aliases_check(const char *list, lh_error *error);
/* Whether the name is in the list, which may be NULL. */
bool lh_model_aliases_have(const char *list, const char *name);
/* The next name but "*", which is none: *length of its bytes. NULL: there are no more. *rest begins
 * as the list, which may be NULL. */
const char *lh_model_aliases_next(const char **rest, size_t *length);
