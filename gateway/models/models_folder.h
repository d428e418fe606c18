/* The folder in which models lie that `longhaul-gateway pull` has fetched. A model's name is that
 * of its file without .gguf, and without a part's number. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf_file.h"
#include "gateway/models/model_reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_MODELS_PATH_BYTES 1024

/* `given`: what --models-dir says, "" where it was not given. Without it /var/lib/longhaul/models
 * for systemd's services, and for root where that folder is there, as the Debian package makes it;
 * else $XDG_DATA_HOME/longhaul/models or ~/.local/share/longhaul/models. LH_ERR_INVALID: none of
 * these is known, or it is too long. */
lh_status lh_models_folder_choose(const char *given, char folder[LH_MODELS_PATH_BYTES],
                                  lh_error *error);
/* Makes it, and those above it, for others to read. LH_ERR_IO. */
lh_status lh_models_folder_make(const char *folder, lh_error *error);

/* One model of the folder, all of its parts being one. */
typedef struct lh_models_entry {
    char name[LH_MODEL_NAME_BYTES];
    char path[LH_MODELS_PATH_BYTES]; /* of its first file that is there */
    bool is_partial;                 /* of a pull that has not come to its end: no file, a .part */
} lh_models_entry;

typedef struct lh_models_list {
    lh_models_entry *entries; /* by name */
    size_t count, capacity;
} lh_models_list;

/* What is there; a folder that is not there is empty. The caller resets the list, also after an
 * error. LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_models_folder_list(const char *folder, lh_models_list *list, lh_error *error);
void lh_models_list_reset(lh_models_list *list);

/* The path of the model of that name; also its file's name is taken. LH_ERR_NOT_FOUND: the message
 * says which there are. LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_models_folder_find(const char *folder, const char *name,
                                char path[LH_MODELS_PATH_BYTES], lh_error *error);
/* Whether there is one of that name, be it whole or a part. LH_ERR_NOT_FOUND, LH_ERR_IO and
 * LH_ERR_NO_MEMORY as above. */
lh_status lh_models_folder_check(const char *folder, const char *name, lh_error *error);
/* Removes all files of the model, and what a pull of it has left. *bytes: what they took.
 * LH_ERR_NOT_FOUND as above, LH_ERR_IO. */
lh_status lh_models_folder_remove(const char *folder, const char *name, uint64_t *bytes,
                                  lh_error *error);
