/* How a token is drawn where a request does not say: as the operator's flags say, else as the
 * model's file recommends, else as OpenAI's API documents. Plain data. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>

typedef enum lh_sampling_field {
    LH_SAMPLING_TEMPERATURE,
    LH_SAMPLING_TOP_P,
    LH_SAMPLING_TOP_K,
    LH_SAMPLING_MIN_P,
    LH_SAMPLING_REPETITION_PENALTY,
    LH_SAMPLING_FIELDS
} lh_sampling_field;

/* What is taken for a field, wherever it is said. */
typedef struct lh_sampling_range {
    const char *name; /* in a request: "top_p" */
    double low, high;
    bool low_included, is_integer;
} lh_sampling_range;

typedef enum lh_sampling_source {
    LH_SAMPLING_BY_API, /* nobody has said anything */
    LH_SAMPLING_BY_MODEL,
    LH_SAMPLING_BY_OPERATOR
} lh_sampling_source;

typedef struct lh_sampling_defaults {
    double values[LH_SAMPLING_FIELDS]; /* each in its range */
    lh_sampling_source sources[LH_SAMPLING_FIELDS];
} lh_sampling_defaults;

/* OpenAI's, and vLLM's where OpenAI has no such field. */
extern const lh_sampling_defaults lh_sampling_api_defaults;

const lh_sampling_range *lh_sampling_range_of(lh_sampling_field field);

/* Takes what the model's file says under general.sampling.*, llama.cpp's keys; a value that no
 * request may have is left out, with a warning in the log that names its key. */
void lh_sampling_defaults_read(lh_sampling_defaults *defaults, const lh_gguf *gguf);
/* Takes the operator's word. LH_ERR_INVALID: it is no number of the field's range. */
lh_status lh_sampling_defaults_set(lh_sampling_defaults *defaults, lh_sampling_field field,
                                   const char *number, lh_error *error);
/* One line of the log: what holds, and who has said so. */
void lh_sampling_defaults_log(const lh_sampling_defaults *defaults);
