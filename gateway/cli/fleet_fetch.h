/* One look at a running gateway's fleet, for commands. Thread: one at a time. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/cli/fleet_document.h"

/* url: of the gateway's API; api_key_file: a file with a key that has `admin`; "": no key is
 * shown. After LH_OK the caller resets the document. LH_ERR_INVALID: the URL, the key's file, or a
 * key that may not; LH_ERR_UNAVAILABLE, LH_ERR_TIMEOUT: nobody answers, or somebody else;
 * LH_ERR_MALFORMED, LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_fleet_fetch(const char *url, const char *api_key_file, lh_fleet_document *document,
                         lh_error *error);
/* What plans are made from, in the format of fleet_file_json.h; after LH_OK the caller resets the
 * body. The same errors. */
lh_status lh_fleet_fetch_map(const char *url, const char *api_key_file, lh_text_buffer *body,
                             lh_error *error);
