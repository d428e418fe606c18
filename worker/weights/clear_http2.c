/* Which libcurl this is decides. */
#include "worker/weights/clear_http2.h"

#include <curl/curl.h>

#define FAULTY_FIRST 0x075800u /* 7.88.0 */
#define FAULTY_END   0x080000u

static curl_socket_t open_none(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
    (void)context;
    (void)purpose;
    (void)address;
    return CURL_SOCKET_BAD;
}

bool lh_clear_http2_prepare(void *easy, bool is_kept) {
    unsigned number = curl_version_info(CURLVERSION_NOW)->version_num;
    bool goes_on = is_kept && number >= FAULTY_FIRST && number < FAULTY_END;
    long version =
        goes_on ? (long)CURL_HTTP_VERSION_2_0 : (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    return curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, goes_on ? open_none : NULL) ==
               CURLE_OK;
}
