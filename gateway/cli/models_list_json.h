/* The models of a folder as JSON, for programs. Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/models/models_folder.h"

/* Appends {"folder": ..., "models": [...]}, and a newline. Of a model that cannot be used "error"
 * says why, and what is not known of it is null. LH_ERR_NO_MEMORY. */
lh_status lh_models_list_render(const char *folder, const lh_models_list *list,
                                lh_text_buffer *out);
