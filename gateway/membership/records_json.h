/* The fleet's records as JSON. Pure. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/membership/records.h"

/* LH_ERR_NO_MEMORY. */
lh_status lh_records_render(const lh_records *records, lh_text_buffer *text);
/* LH_ERR_MALFORMED: the message names the field; LH_ERR_NO_MEMORY. What has been read by then is in
 * *records, which the caller resets. */
lh_status lh_records_parse(const char *bytes, size_t length, lh_records *records, lh_error *error);
