/* What a model hub says of a repository's files (GET of Hugging Face's
 * /api/models/OWNER/REPO/tree/main?recursive=true), and which of them a quantization means. Thread:
 * any. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/part_name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_HUB_PATH_BYTES 512
#define LH_HUB_FILES_MAX  10000

typedef struct lh_hub_file {
    char path[LH_HUB_PATH_BYTES]; /* in the repository; its last segment is a safe name */
    uint64_t bytes;
    bool has_sha256;
    uint8_t sha256[LH_SHA256_BYTES];
} lh_hub_file;

/* The repository's .gguf files; others, and those under unsafe names, are left out. */
typedef struct lh_hub_listing {
    lh_hub_file *files;
    size_t count, capacity;
} lh_hub_listing;

/* The files of one model, in the order of its parts. */
typedef struct lh_hub_model {
    const lh_hub_file *files[LH_GGUF_PARTS_MAX];
    uint32_t count;
} lh_hub_model;

/* Appends what one page of the answer lists. LH_ERR_MALFORMED, LH_ERR_LIMIT (over LH_HUB_FILES_MAX
 * files, or over json_object.h's bounds), LH_ERR_NO_MEMORY. */
lh_status lh_hub_listing_parse(const char *page, size_t length, lh_hub_listing *listing,
                               lh_error *error);
void lh_hub_listing_reset(lh_hub_listing *listing);

/* The model of that quantization: the one whose name, or folder, has the word. Without one ("") the
 * only model that there is, else the one of Q4_K_M. It points into the listing. LH_ERR_NOT_FOUND:
 * none; LH_ERR_INVALID: several; the messages say which there are. LH_ERR_MALFORMED: parts are
 * missing. */
lh_status lh_hub_listing_pick(const lh_hub_listing *listing, const char *quantization,
                              lh_hub_model *model, lh_error *error);
