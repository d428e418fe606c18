/* Which layers of which models are on the disk of this machine, so that the gateway knows what a
 * stage would have to be sent.
 *
 * For each model a list in the cache folder, "layers-" and the digest of the model's header, names
 * the files of each layer: it is written when the model's digests are known, so that a worker that
 * starts again knows what it has before anybody has asked it for a stage. A layer is here when
 * files of its tensors' names and lengths are; their digests are checked when they are used. Of a
 * local model file all layers are here.
 *
 * Thread: any, but creation and destruction. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/protocol/cached_layers.h"

#include <stddef.h>

typedef struct lh_weight_inventory lh_weight_inventory;

/* A tensor that a stage of this one layer would load: of the first layer the embedding too, of the
 * last one the head. */
typedef struct lh_layer_file {
    uint32_t layer;
    uint64_t bytes;
    uint8_t digest[LH_SHA256_BYTES];
} lh_layer_file;

/* Looks what is there. The folder is that of the cache, which has been opened. model_path: a local
 * GGUF file, or NULL or ""; one that cannot be read counts for nothing. LH_ERR_NO_MEMORY. */
lh_status lh_weight_inventory_create(const char *folder, const char *model_path,
                                     lh_weight_inventory **inventory, lh_error *error);
/* NULL is allowed. */
void lh_weight_inventory_destroy(lh_weight_inventory *inventory);
/* Writes a model's list: files[count], ascending by layer. LH_ERR_IO; LH_ERR_LIMIT: the disk is
 * full; LH_ERR_NO_MEMORY. Takes a while. */
lh_status lh_weight_inventory_note(lh_weight_inventory *inventory, const char *model,
                                   const lh_layer_file *files, size_t count, lh_error *error);
/* Looks again, at each file of each list. Takes a while. */
void lh_weight_inventory_refresh(lh_weight_inventory *inventory);
/* What it saw last: that of the local file first, then the models whose lists were written last.
 * Returns how many there are. */
uint32_t lh_weight_inventory_read(lh_weight_inventory *inventory,
                                  lh_cached_layers models[LH_CACHED_MODELS_MAX]);
