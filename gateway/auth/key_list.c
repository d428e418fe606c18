/* Lines, words, numbers and dates, read strictly: a limit that nobody understood must not become
 * none. */
#include "gateway/auth/key_list.h"

#include "common/base/growing_array.h"
#include "common/base/private_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIGEST_WORD "sha256:"

typedef struct word {
    const char *bytes;
    size_t length;
} word;

/* ---- Words. ---- */

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t';
}

/* The next word of the line's rest, which it is taken from; empty: there is none. */
static word next_word(word *rest) {
    while (rest->length && is_blank(*rest->bytes)) {
        rest->bytes++;
        rest->length--;
    }
    word found = {rest->bytes, 0};
    while (found.length < rest->length && !is_blank(found.bytes[found.length]))
        found.length++;
    rest->bytes += found.length;
    rest->length -= found.length;
    return found;
}

/* Whether the word begins with `start`, which is then taken off. */
static bool skip(word *text, const char *start) {
    size_t length = strlen(start);
    if (text->length < length || memcmp(text->bytes, start, length) != 0)
        return false;
    text->bytes += length;
    text->length -= length;
    return true;
}

/* ---- Values. ---- */

static bool parse_number(word text, int64_t minimum, int64_t maximum, int64_t *number) {
    bool is_negative = skip(&text, "-");
    if (text.length == 0 || text.length > 12)
        return false;
    *number = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
        *number = *number * 10 + (text.bytes[i] - '0');
    }
    if (is_negative)
        *number = -*number;
    return *number >= minimum && *number <= maximum;
}

/* YYYY-MM-DD, midnight UTC, or with Thh:mm:ssZ behind it. */
static bool parse_time(word text, int64_t *seconds) {
    static const char form[] = "0000-00-00T00:00:00Z";
    char copy[sizeof form];
    if (text.length != 10 && text.length != sizeof form - 1)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        bool is_digit = text.bytes[i] >= '0' && text.bytes[i] <= '9';
        if (form[i] == '0' ? !is_digit : text.bytes[i] != form[i])
            return false;
    }
    memcpy(copy, form, sizeof form);
    memcpy(copy, text.bytes, text.length);
    struct tm parts = {0};
    const char *end = strptime(copy, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (!end || *end)
        return false;
    int day = parts.tm_mday;
    *seconds = timegm(&parts);
    return parts.tm_mday == day; /* the 31st of a month of 30 days would have moved */
}

static bool parse_name(word text, char name[LH_KEY_NAME_BYTES]) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (text.length == 0 || text.length >= LH_KEY_NAME_BYTES)
        return false;
    memcpy(name, text.bytes, text.length);
    name[text.length] = '\0';
    return strspn(name, allowed) == text.length;
}

static bool parse_digest(word text, uint8_t digest[LH_SHA256_BYTES]) {
    char hex[LH_SHA256_HEX_BYTES];
    if (!skip(&text, DIGEST_WORD) || text.length != sizeof hex - 1)
        return false;
    memcpy(hex, text.bytes, text.length);
    hex[text.length] = '\0';
    return lh_sha256_parse(hex, digest);
}

/* ---- A line. ---- */

static lh_status parse_rate(word value, const char *name, uint32_t *rate, lh_error *error) {
    int64_t number;
    if (!parse_number(value, 0, LH_KEY_RATE_MAX, &number))
        return lh_fail(error, LH_ERR_INVALID, "%s wants a number from 0 (no limit) to %d", name,
                       LH_KEY_RATE_MAX);
    *rate = (uint32_t)number;
    return LH_OK;
}

static lh_status parse_priority(word value, lh_key *key, lh_error *error) {
    int64_t number;
    if (!parse_number(value, INT32_MIN, INT32_MAX, &number))
        return lh_fail(error, LH_ERR_INVALID, "priority= wants an integer of 32 bits");
    key->priority = (int32_t)number;
    return LH_OK;
}

static lh_status parse_setting(word text, lh_key *key, lh_error *error) {
    const word whole = text;
    if (skip(&text, "requests-per-minute="))
        return parse_rate(text, "requests-per-minute=", &key->limits.requests_per_minute, error);
    if (skip(&text, "tokens-per-minute="))
        return parse_rate(text, "tokens-per-minute=", &key->limits.tokens_per_minute, error);
    if (skip(&text, "concurrent-requests="))
        return parse_rate(text, "concurrent-requests=", &key->limits.concurrent_requests, error);
    if (skip(&text, "reading-ms-per-minute="))
        return parse_rate(text, "reading-ms-per-minute=", &key->limits.reading_ms_per_minute,
                          error);
    if (skip(&text, "priority="))
        return parse_priority(text, key, error);
    if (skip(&text, "expires="))
        return parse_time(text, &key->expires_s)
                   ? LH_OK
                   : lh_fail(error, LH_ERR_INVALID,
                             "expires= wants a date of UTC: 2027-01-31 or 2027-01-31T12:00:00Z");
    if (skip(&text, "admin") && text.length == 0) {
        key->is_admin = true;
        return LH_OK;
    }
    return lh_fail(error, LH_ERR_INVALID,
                   "\"%.*s\" is none of requests-per-minute=, tokens-per-minute=, "
                   "concurrent-requests=, reading-ms-per-minute=, priority=, expires=, admin",
                   whole.length < 40 ? (int)whole.length : 40, whole.bytes);
}

/* A line of one word is what the file held before there were digests: the key itself, which no
 * message may show. */
static lh_status parse_line(word line, const lh_key_limits *defaults, lh_key *key,
                            lh_error *error) {
    word name = next_word(&line), digest = next_word(&line);
    *key = (lh_key){.limits = *defaults, .expires_s = INT64_MAX};
    if (digest.length == 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "one word alone: if it is a key in plain text, let \"longhaul-gateway key "
                       "NAME --from FILE\" write the line that belongs here, NAME sha256:DIGEST");
    if (!parse_name(name, key->name))
        return lh_fail(error, LH_ERR_INVALID, "the name must be 1 to %d of A-Z a-z 0-9 . _ -",
                       LH_KEY_NAME_BYTES - 1);
    if (!parse_digest(digest, key->digest))
        return lh_fail(error, LH_ERR_INVALID,
                       "the second word must be " DIGEST_WORD " and 64 digits of 0-9 a-f");
    lh_status status = LH_OK;
    for (word text = next_word(&line); text.length && status == LH_OK; text = next_word(&line))
        status = parse_setting(text, key, error);
    return status;
}

/* ---- The file. ---- */

static bool has_same_limits(const lh_key *a, const lh_key *b) {
    return a->limits.requests_per_minute == b->limits.requests_per_minute &&
           a->limits.tokens_per_minute == b->limits.tokens_per_minute &&
           a->limits.concurrent_requests == b->limits.concurrent_requests &&
           a->limits.reading_ms_per_minute == b->limits.reading_ms_per_minute;
}

static lh_status add_key(lh_key_list *list, const lh_key *key, lh_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        const lh_key *other = &list->keys[i];
        if (memcmp(other->digest, key->digest, sizeof key->digest) == 0)
            return lh_fail(error, LH_ERR_INVALID, "the same key as that of %s", other->name);
        if (strcmp(other->name, key->name) == 0 && !has_same_limits(other, key))
            return lh_fail(error, LH_ERR_INVALID,
                           "%s has other limits here than on a line before: they are one client's",
                           key->name);
    }
    if (list->count == LH_KEY_LIST_MAX)
        return lh_fail(error, LH_ERR_INVALID, "more than %d keys", LH_KEY_LIST_MAX);
    if (!lh_growing_array_reserve(&list->keys, &list->capacity, list->count + 1,
                                  sizeof *list->keys))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
    list->keys[list->count++] = *key;
    return LH_OK;
}

/* The next line without its end and its comment. */
static word next_line(word *rest) {
    const char *end = memchr(rest->bytes, '\n', rest->length);
    word line = {rest->bytes, end ? (size_t)(end - rest->bytes) : rest->length};
    size_t taken = line.length + (end != NULL);
    rest->bytes += taken;
    rest->length -= taken;
    const char *comment = line.length ? memchr(line.bytes, '#', line.length) : NULL;
    if (comment)
        line.length = (size_t)(comment - line.bytes);
    if (line.length && line.bytes[line.length - 1] == '\r')
        line.length--;
    return line;
}

lh_status lh_key_list_parse(const char *text, size_t length, const lh_key_limits *defaults,
                            lh_key_list *list, lh_error *error) {
    word rest = {text, length};
    lh_error cause = {.status = LH_OK};
    *list = (lh_key_list){0};
    for (size_t number = 1; rest.length; number++) {
        word line = next_line(&rest), ahead = line;
        lh_key key;
        if (next_word(&ahead).length == 0)
            continue;
        lh_status status = parse_line(line, defaults, &key, &cause);
        if (status == LH_OK)
            status = add_key(list, &key, &cause);
        if (status) {
            lh_key_list_reset(list);
            return lh_fail(error, status, "line %zu: %.280s", number, cause.message);
        }
    }
    return LH_OK;
}

lh_status lh_key_list_read(const char *path, const lh_key_limits *defaults, lh_key_list *list,
                           lh_error *error) {
    char *text = malloc(LH_KEY_LIST_BYTES_MAX);
    lh_error cause;
    size_t length;
    *list = (lh_key_list){0};
    if (!text)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the API's keys");
    lh_status status = lh_private_file_read(path, text, LH_KEY_LIST_BYTES_MAX, &length, error);
    if (status == LH_OK) {
        status = lh_key_list_parse(text, length, defaults, list, &cause);
        if (status)
            lh_fail(error, status, "%.120s, %.190s", path, cause.message);
        else if (list->count == 0)
            status = lh_fail(error, LH_ERR_INVALID,
                             "%.120s holds no key: \"longhaul-gateway key NAME\" makes one", path);
        explicit_bzero(text, length); /* it may have been a key in plain text */
    }
    free(text);
    return status == LH_ERR_LIMIT ? LH_ERR_INVALID : status;
}

void lh_key_list_reset(lh_key_list *list) {
    free(list->keys);
    *list = (lh_key_list){0};
}

const lh_key *lh_key_list_find(const lh_key_list *list, const uint8_t digest[LH_SHA256_BYTES]) {
    const lh_key *found = NULL;
    for (size_t i = 0; i < list->count; i++)
        found = lh_sha256_equal(list->keys[i].digest, digest) ? &list->keys[i] : found;
    return found;
}
