/* Which libcurl this is decides. */
#include "worker/weights/clear_http2.h"

#include <curl/curl.h>

#define FAULTY_FIRST 0x075800u /* 7.88.0 */
#define FAULTY_END   0x080000u

long lh_clear_http2_version(bool is_kept) {
    unsigned version = curl_version_info(CURLVERSION_NOW)->version_num;
    bool is_faulty = version >= FAULTY_FIRST && version < FAULTY_END;
    return is_kept && is_faulty ? (long)CURL_HTTP_VERSION_2_0
                                : (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
}
