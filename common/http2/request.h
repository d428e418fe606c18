/* Gathers the headers of one request as they come, and makes an lh_h2_request of them. The session
 * bounds how many there are (conduct.h). Thread: the owner's. */
#pragma once

#include "common/http2/stream.h"

typedef struct lh_h2_request_builder lh_h2_request_builder;

/* NULL when out of memory. */
lh_h2_request_builder *lh_h2_request_builder_create(void);
void lh_h2_request_builder_destroy(lh_h2_request_builder *builder);

/* One header, pseudo headers included; the bytes are copied. LH_ERR_NO_MEMORY. */
lh_status lh_h2_request_builder_add(lh_h2_request_builder *builder, const void *name,
                                    size_t name_length, const void *value, size_t value_length);
/* All have come. The request points into the builder; peer and peer_identity are left to the
 * caller.
 * LH_ERR_INVALID: no method, or no path that begins with '/'; LH_ERR_NO_MEMORY. */
lh_status lh_h2_request_builder_finish(lh_h2_request_builder *builder, lh_h2_request *request);
