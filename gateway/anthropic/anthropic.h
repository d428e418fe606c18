/* Anthropic's Messages API as a dialect (gateway/openai/dialect.h). Static. */
#pragma once

#include "gateway/openai/dialect.h"

extern const lh_openai_dialect lh_anthropic;
