/* A fleet's records as JSON, for programs; times as "2027-01-31T12:00:00Z". Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/membership/records.h"

/* Each appends an object and a newline: {"members": [...], "authorities": [...]}, of each name the
 * youngest certificate; {"tokens": [...]}. LH_ERR_NO_MEMORY. */
lh_status lh_records_list_members(const lh_records *records, int64_t now_s, lh_text_buffer *out);
lh_status lh_records_list_tokens(const lh_records *records, int64_t now_s, lh_text_buffer *out);
