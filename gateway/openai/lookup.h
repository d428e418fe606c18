/* What the API tells without generating or reading anything: models, health, the fleet. Private to
 * gateway/openai/. Thread: any. */
#pragma once

#include "gateway/openai/dialect.h"
#include "gateway/openai/error.h"
#include "gateway/openai/routes.h"
#include "gateway/openai/service.h"

/* 503, and why: draining, or as the engine says. Returns false. */
bool lh_openai_lookup_refuse(const lh_openai_service *service, lh_openai_error *error);
/* Fills the reply to a request of any action that has no goal of reading, in the words of a
 * dialect. False: *error says why not. */
bool lh_openai_lookup(const lh_openai_service *service, const lh_openai_dialect *dialect,
                      const lh_openai_route *route, lh_http_reply *reply, lh_openai_error *error);
