/* A model's file for tests that need one but not what is in it. */
#pragma once

#include "gateway/fleet/port/model_file.h"

/* tiny_llama.h's model; the caller closes it. */
lh_model_file *open_tiny_model(void);
