/* GET /fleet, and what its status means to somebody at a terminal. */
#include "gateway/cli/fleet_fetch.h"

#include "gateway/auth/api_key.h"
#include "gateway/cli/api_fetch.h"
#include "gateway/cli/fleet_document_json.h"

#include <string.h>

static lh_status judge(const char *url, long http_status, lh_error *error) {
    switch (http_status) {
    case 200:
        return LH_OK;
    case 401:
        return lh_fail(error, LH_ERR_INVALID,
                       "%.120s wants a key: give --api-key-file with the right one", url);
    case 403:
        return lh_fail(error, LH_ERR_INVALID,
                       "%.120s shows its fleet to a key with `admin` alone: give --api-key-file "
                       "with such a one",
                       url);
    default:
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.120s answers HTTP %ld; is this the gateway's API?", url, http_status);
    }
}

static lh_status fetch(const char *url, const char *path, const char *api_key_file,
                       lh_text_buffer *body, lh_error *error) {
    char key[LH_API_KEY_BYTES] = "";
    long http_status = 0;
    lh_status status = LH_OK;
    if (api_key_file[0])
        status = lh_api_key_read(api_key_file, key, error);
    if (status == LH_OK)
        status = lh_api_fetch(url, path, "", key, &http_status, body, error);
    explicit_bzero(key, sizeof key);
    if (status == LH_OK)
        status = judge(url, http_status, error);
    if (status != LH_OK)
        lh_text_buffer_reset(body);
    return status;
}

lh_status lh_fleet_fetch_map(const char *url, const char *api_key_file, lh_text_buffer *body,
                             lh_error *error) {
    return fetch(url, "/fleet/map", api_key_file, body, error);
}

lh_status lh_fleet_fetch(const char *url, const char *api_key_file, lh_fleet_document *document,
                         lh_error *error) {
    lh_text_buffer body = {0};
    lh_status status = fetch(url, "/fleet", api_key_file, &body, error);
    if (status == LH_OK)
        status = lh_fleet_document_parse(body.bytes, body.length, document, error);
    lh_text_buffer_reset(&body);
    return status;
}
