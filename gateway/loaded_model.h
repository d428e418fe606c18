/* The model's file and all that the gateway has read of it: profile, tokenizer, chat template. The
 * program's main thread opens and closes it; in between it is read-only. */
#pragma once

#include "gateway/cli/settings.h"
#include "gateway/fleet/model_profile.h"
#include "gateway/fleet/port/model_file.h"
#include "gateway/text/served_model.h"

typedef struct lh_loaded_model {
    const lh_gateway_settings *settings; /* their model is a path; they outlive it */
    lh_model_file *file;
    lh_model_profile profile;
    lh_tokenizer *tokenizer;
    lh_chat_template *chat_template; /* NULL: it cannot chat, and chat_refusal says why */
    lh_error chat_refusal;
    char name[256], fingerprint[20];
    lh_served_model served; /* points into the rest: the struct stays where it is */
} lh_loaded_model;

/* Reads the file, and writes nothing. Messages name the file or the flag. LH_ERR_IO,
 * LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED: of the file; LH_ERR_INVALID: of a flag; LH_ERR_NO_MEMORY.
 * Where it fails, too, _close frees what it holds. */
lh_status lh_loaded_model_open(lh_loaded_model *model, const lh_gateway_settings *settings,
                               lh_error *error);
/* Of one that is {0}, too. */
void lh_loaded_model_close(lh_loaded_model *model);
