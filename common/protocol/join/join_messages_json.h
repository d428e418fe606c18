/* The messages of joining as JSON. Renderers give a malloc'd text, which the caller frees, or NULL:
 * out of memory. Parsers check everything for type and range before it is believed, also that PEM
 * is printable text (not what it holds); fields that this version does not know are ignored. Their
 * statuses: LH_ERR_MALFORMED (the message names the field), LH_ERR_UNSUPPORTED (another protocol,
 * where the message has a number for it), LH_ERR_NO_MEMORY. Thread: any. */
#pragma once

#include "common/protocol/join/join_messages.h"

/* The text holds the secret: explicit_bzero it before it is freed. */
char *lh_join_request_render(const lh_join_request *request);
lh_status lh_join_request_parse(const char *bytes, size_t length, lh_join_request *request,
                                lh_error *error);

char *lh_join_renewal_render(const lh_join_renewal *renewal);
lh_status lh_join_renewal_parse(const char *bytes, size_t length, lh_join_renewal *renewal,
                                lh_error *error);

char *lh_join_grant_render(const lh_join_grant *grant);
lh_status lh_join_grant_parse(const char *bytes, size_t length, lh_join_grant *grant,
                              lh_error *error);

/* Not with LH_JOIN_OTHER. */
char *lh_join_refusal_render(const lh_join_refusal *refusal);
lh_status lh_join_refusal_parse(const char *bytes, size_t length, lh_join_refusal *refusal,
                                lh_error *error);

char *lh_join_reach_request_render(const char *address);
lh_status lh_join_reach_request_parse(const char *bytes, size_t length,
                                      char address[LH_JOIN_ADDRESS_BYTES], lh_error *error);
char *lh_join_reach_render(const lh_join_reach *reach);
lh_status lh_join_reach_parse(const char *bytes, size_t length, lh_join_reach *reach,
                              lh_error *error);
