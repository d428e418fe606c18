/* What `longhaul-gateway pull` is told to fetch, and names of files that come from outside. Thread:
 * any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define LH_REFERENCE_WORD_BYTES 97  /* of owner, repository and quantization; hubs allow 96 */
#define LH_MODEL_NAME_BYTES     256 /* NAME_MAX and the terminator */
#define LH_MODEL_URL_BYTES      2048

typedef struct lh_model_reference {
    bool is_hub;
    char owner[LH_REFERENCE_WORD_BYTES], repository[LH_REFERENCE_WORD_BYTES];
    char quantization[LH_REFERENCE_WORD_BYTES]; /* "": not said */
    const char *url;                            /* else; points into the text */
} lh_model_reference;

/* "hf:OWNER/REPO", "hf:OWNER/REPO:QUANT", "http://..." or "https://...". LH_ERR_INVALID. */
lh_status lh_model_reference_parse(const char *text, lh_model_reference *reference,
                                   lh_error *error);

/* Whether a name from outside may become a file's: no folder, not hidden, no control characters,
 * quotes or backslashes, ends in ".gguf". */
bool lh_model_name_is_safe(const char *name);
/* The last segment of the URL's path. LH_ERR_INVALID: it is no safe name, or the URL is too long.
 */
lh_status lh_model_name_of_url(const char *url, char name[LH_MODEL_NAME_BYTES], lh_error *error);
/* The URL with that name in the place of its last segment; what follows the path stays.
 * LH_ERR_INVALID: too long. */
lh_status lh_model_url_beside(const char *url, const char *name, char other[LH_MODEL_URL_BYTES],
                              lh_error *error);
