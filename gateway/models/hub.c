/* GET /api/models/OWNER/REPO/tree/main, page by page, and /OWNER/REPO/resolve/main/PATH. */
#include "gateway/models/hub.h"

#include "common/base/text_buffer.h"
#include "gateway/models/http_get.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAGES_MAX      64u
#define PAGE_BYTES_MAX (16u << 20)
#define PAUSE_MAX_S    30

/* The URL without slashes at its end. */
static int trimmed(const char *url) {
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/')
        length--;
    return (int)length;
}

/* "127.0.0.1", "localhost", "[::1]", each with or without a port; "localhost:x@other" is none. */
static bool is_loopback(const char *authority) {
    size_t length = strcspn(authority, "/?#");
    size_t host = authority[0] == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":/");
    if (host > length || memchr(authority, '@', length))
        return false;
    return (strncmp(authority, "127.", 4) == 0 && strspn(authority, "0123456789.") == host) ||
           (host == 9 && strncmp(authority, "localhost", 9) == 0) ||
           (host == 5 && strncmp(authority, "[::1]", 5) == 0);
}

lh_status lh_hub_check(const lh_hub *hub, lh_error *error) {
    bool is_plain = strncmp(hub->url, "http://", 7) == 0;
    if (!is_plain && strncmp(hub->url, "https://", 8) != 0)
        return lh_fail(error, LH_ERR_INVALID, "--hub-url %.150s is no URL (https://...)", hub->url);
    if (is_plain && hub->token[0] && !is_loopback(hub->url + 7))
        return lh_fail(error, LH_ERR_INVALID,
                       "--hub-token-file would send the token in the clear to %.150s: give a "
                       "--hub-url with https://",
                       hub->url);
    return LH_OK;
}

/* ---- One page ---- */

static lh_status append(void *context, const char *bytes, size_t length, lh_error *error) {
    lh_text_buffer *page = context;
    if (length > PAGE_BYTES_MAX - page->length)
        return lh_fail(error, LH_ERR_LIMIT, "a page of the hub's list is over %u MiB",
                       PAGE_BYTES_MAX >> 20);
    return lh_text_buffer_append(page, bytes, length, error);
}

static lh_status judge(const char *url, const lh_http_answer *answer, lh_error *error) {
    switch (answer->status) {
    case 200:
        return LH_OK;
    case 401:
    case 403:
        return lh_fail(error, LH_ERR_INVALID,
                       "%.150s: the hub answers %ld: there is no such repository, or it wants "
                       "--hub-token-file with the token of an account that may read it",
                       url, answer->status);
    case 404:
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "%.200s: the hub answers 404: there is no such repository", url);
    default:
        return lh_fail(error, LH_ERR_UNAVAILABLE, "%.200s: the hub answers %ld", url,
                       answer->status);
    }
}

static bool is_worth_another(lh_status status, const lh_http_answer *answer) {
    return status == LH_ERR_TIMEOUT ||
           (status == LH_ERR_UNAVAILABLE && (answer->status == 0 || answer->status == 429 ||
                                             answer->status == 200 || answer->status >= 500));
}

static lh_status get_page(const lh_hub *hub, const char *url, lh_text_buffer *page,
                          lh_http_answer *answer, lh_error *error) {
    const lh_http_request request = {.url = url,
                                     .token = hub->token,
                                     .if_range = "",
                                     .stall_timeout_s = hub->stall_timeout_s,
                                     .on_bytes = append,
                                     .context = page};
    for (uint32_t tried = 1;; tried++) {
        page->length = 0;
        lh_status status = lh_http_get(&request, answer, error);
        if (status == LH_OK)
            status = judge(url, answer, error);
        if (status == LH_OK || tried >= hub->tries || !is_worth_another(status, answer))
            return status;
        int64_t pause_s = answer->retry_after_s > 0 ? answer->retry_after_s : 1;
        nanosleep(&(struct timespec){.tv_sec = pause_s < PAUSE_MAX_S ? pause_s : PAUSE_MAX_S},
                  NULL);
    }
}

static lh_status add_page(const lh_hub *hub, const char *url, lh_hub_listing *listing,
                          lh_http_answer *answer, lh_error *error) {
    lh_text_buffer page = {0};
    lh_status status = get_page(hub, url, &page, answer, error);
    if (status == LH_OK)
        status = lh_hub_listing_parse(page.bytes ? page.bytes : "", page.length, listing, error);
    lh_text_buffer_reset(&page);
    return status;
}

lh_status lh_hub_list(const lh_hub *hub, const lh_model_reference *reference,
                      lh_hub_listing *listing, lh_error *error) {
    char url[LH_MODEL_URL_BYTES];
    lh_http_answer answer;
    *listing = (lh_hub_listing){0};
    if (snprintf(url, sizeof url, "%.*s/api/models/%s/%s/tree/main?recursive=true",
                 trimmed(hub->url), hub->url, reference->owner,
                 reference->repository) >= (int)sizeof url)
        return lh_fail(error, LH_ERR_INVALID, "--hub-url is too long");
    for (uint32_t i = 0; i < PAGES_MAX; i++) {
        lh_status status = add_page(hub, url, listing, &answer, error);
        if (status != LH_OK || !answer.next[0])
            return status;
        if (!lh_http_same_origin(hub->url, answer.next))
            return lh_fail(error, LH_ERR_INVALID,
                           "%.130s names a next page elsewhere, at %.130s, which is not read", url,
                           answer.next);
        memcpy(url, answer.next, sizeof url);
    }
    return lh_fail(error, LH_ERR_LIMIT, "the hub's list has over %u pages", PAGES_MAX);
}

/* ---- A file's URL ---- */

/* RFC 3986: what is not unreserved, and no slash, is escaped. */
static bool escape_path(const char *path, char *escaped, size_t bytes) {
    size_t length = 0;
    for (; *path; path++) {
        bool is_plain = isalnum((unsigned char)*path) || strchr("-._~/", *path);
        if (length + 4 > bytes)
            return false;
        length += (size_t)snprintf(escaped + length, bytes - length, is_plain ? "%c" : "%%%02X",
                                   is_plain ? *path : (unsigned char)*path);
    }
    return true;
}

lh_status lh_hub_file_url(const lh_hub *hub, const lh_model_reference *reference, const char *path,
                          char url[LH_MODEL_URL_BYTES], lh_error *error) {
    char escaped[3 * LH_HUB_PATH_BYTES + 4];
    if (escape_path(path, escaped, sizeof escaped) &&
        snprintf(url, LH_MODEL_URL_BYTES, "%.*s/%s/%s/resolve/main/%s", trimmed(hub->url), hub->url,
                 reference->owner, reference->repository, escaped) < LH_MODEL_URL_BYTES)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "the URL of %.150s is too long", path);
}
