/* Server-sent events (WHATWG HTML, 9.2) as an OpenAI stream uses them: one line of data an event.
 * Thread: any. */
#pragma once

#include "common/base/text_buffer.h"

/* An event comes in three steps: open, its JSON (which holds no line break), close.
 * LH_ERR_NO_MEMORY. */
lh_status lh_sse_open(lh_text_buffer *out);
lh_status lh_sse_close(lh_text_buffer *out);
/* "data: [DONE]": the end of the stream. */
lh_status lh_sse_done(lh_text_buffer *out);
/* A comment, which clients skip and which keeps proxies from taking the silence for the end. */
lh_status lh_sse_keep_alive(lh_text_buffer *out);
