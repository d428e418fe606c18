/* Which file --model means: one that is there, or the model of that name in the models' folder.
 * Thread: start-up only. */
#pragma once

#include "common/base/status.h"
#include "gateway/models/models_folder.h"

/* `model` as it is given, or the path of the model of that name in `models_dir` (as --models-dir
 * says it). LH_ERR_NOT_FOUND: neither is there, and which models are; else those of
 * lh_models_folder_find. */
lh_status lh_model_choose(const char *model, const char *models_dir,
                          char path[LH_MODELS_PATH_BYTES], lh_error *error);
