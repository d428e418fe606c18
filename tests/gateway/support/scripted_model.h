/* The tiny model (tests/support/tiny_llama.h) as the gateway serves it, beside the scripted engine:
 * tokenizer, ChatML template, context of 256. */
#pragma once

#include "gateway/text/served_model.h"

typedef struct scripted_model scripted_model;

/* Aborts without memory. */
scripted_model *scripted_model_create(void);
void scripted_model_destroy(scripted_model *tiny);
const lh_served_model *scripted_model_served(const scripted_model *tiny);
/* With another context length. */
scripted_model *scripted_model_create_with(uint32_t context);
