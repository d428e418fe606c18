/* What clients are told while no chain serves: in a refusal, and in a stream that waits. */
#pragma once

#include "gateway/openai/service.h"

#define LH_OPENAI_WAITING_BYTES 80u

/* Adds to a refusal of LH_ERR_UNAVAILABLE why no chain serves, and after which time another request
 * makes sense. Without keys everybody may ask for GET /fleet, and reads as much here; with them, no
 * names. */
void lh_openai_outage_explain(const lh_openai_service *service, lh_openai_error *error);
/* What a stream waits for, as "waiting for weights, 41 %, about 90 s"; "": a chain serves. */
void lh_openai_outage_waiting(const lh_openai_service *service, char text[LH_OPENAI_WAITING_BYTES]);
