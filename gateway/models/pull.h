/* Fetches a model, all of its files, into a folder: what is to be fetched is found out, each file
 * downloaded (download.h), looked into as a GGUF model, and only then put in its place. What was
 * interrupted goes on where it stopped. Blocking; one thread at a time. */
#pragma once

#include "common/base/status.h"
#include "gateway/models/hub.h"

typedef struct lh_pull_options {
    const char *reference; /* lh_model_reference_parse */
    const char *sha256;    /* 64 hex digits; "": not known */
    /* a file, or a folder, which is there, or ends in '/' and is made; "": into `folder` */
    const char *output;
    const char *folder; /* of the models; made where it is missing */
    lh_hub hub;
    char *path; /* [LH_MODELS_PATH_BYTES], gets that of the model's first file; NULL: not wanted */
} lh_pull_options;

/* LH_ERR_INVALID: the options; LH_ERR_EXISTS: another file of that name is there; LH_ERR_BUSY:
 * another process pulls it; LH_ERR_LIMIT: no room on the disk; LH_ERR_MALFORMED,
 * LH_ERR_UNSUPPORTED: it is no GGUF model; those of lh_hub_list, lh_hub_listing_pick and
 * lh_download_run. */
lh_status lh_pull(const lh_pull_options *options, lh_error *error);
