/* How long a sequence may be now. Thread: any. */
#pragma once

#include "gateway/openai/service.h"

/* Positions of prompt and answer together: --context or the model's own, or what the chain's KV
 * caches hold where that is less. */
uint32_t lh_openai_served_context(const lh_openai_service *service);
