/* A model hub that speaks Hugging Face's API: which files a repository has, and where each is.
 * Blocking; one thread at a time. */
#pragma once

#include "common/base/status.h"
#include "gateway/models/hub_listing_json.h"
#include "gateway/models/model_reference.h"

#include <stdint.h>

typedef struct lh_hub {
    const char *url;   /* "https://huggingface.co" */
    const char *token; /* "": none */
    uint32_t tries;
    int64_t stall_timeout_s;
} lh_hub;

/* LH_ERR_INVALID: the URL is none, or a token would cross the network in the clear. */
lh_status lh_hub_check(const lh_hub *hub, lh_error *error);
/* All pages of the list. The caller resets the listing, also after an error. LH_ERR_NOT_FOUND: no
 * such repository; LH_ERR_INVALID: the hub wants a token, or another one; LH_ERR_UNAVAILABLE,
 * LH_ERR_TIMEOUT, those of lh_hub_listing_parse. */
lh_status lh_hub_list(const lh_hub *hub, const lh_model_reference *reference,
                      lh_hub_listing *listing, lh_error *error);
/* Of a file of the listing. LH_ERR_INVALID: too long. */
lh_status lh_hub_file_url(const lh_hub *hub, const lh_model_reference *reference, const char *path,
                          char url[LH_MODEL_URL_BYTES], lh_error *error);
