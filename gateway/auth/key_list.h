/* The gateway's file of API keys: for each its name, its SHA-256 and what it may do. A line is one
 * key, its words separated by blanks:
 *
 *     NAME sha256:DIGEST [requests-per-minute=N] [tokens-per-minute=N] [concurrent-requests=N]
 *     [reading-ms-per-minute=N] [priority=N] [expires=YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ] [admin]
 *
 * '#' begins a comment, empty lines are passed over. A name (1 to 63 of A-Z a-z 0-9 . _ -) is a
 * client; it may stand on several lines, say an old and a new key while clients change over, which
 * then have the same limits, though maybe another priority. Limits that a line does not name are
 * the gateway's own. Plain data; thread: any. */
#pragma once

#include "common/base/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_KEY_NAME_BYTES     64
#define LH_KEY_LIST_MAX       4096 /* each request is compared with all of them */
#define LH_KEY_LIST_BYTES_MAX (1u << 20)
#define LH_KEY_RATE_MAX       1000000000

/* 0: without a limit. */
typedef struct lh_key_limits {
    uint32_t requests_per_minute, tokens_per_minute;
    uint32_t concurrent_requests;
    uint32_t reading_ms_per_minute; /* processor time for reading its requests */
} lh_key_limits;

typedef struct lh_key {
    char name[LH_KEY_NAME_BYTES];
    uint8_t digest[LH_SHA256_BYTES];
    lh_key_limits limits;
    int32_t priority;  /* the least, so the soonest, that its requests get */
    int64_t expires_s; /* Unix time from which on it is refused; INT64_MAX: never */
    bool is_admin;     /* may also ask for what tells of the fleet and of others' requests */
} lh_key;

typedef struct lh_key_list {
    lh_key *keys; /* [count], malloc'd */
    size_t count, capacity;
} lh_key_list;

/* `defaults`: the limits of keys that name none. LH_ERR_INVALID: "line 3: ..."; LH_ERR_NO_MEMORY.
 * Where it fails the list is empty. */
lh_status lh_key_list_parse(const char *text, size_t length, const lh_key_limits *defaults,
                            lh_key_list *list, lh_error *error);
/* The same from a file that only its owner may use. LH_ERR_INVALID (the message begins with the
 * path), LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_key_list_read(const char *path, const lh_key_limits *defaults, lh_key_list *list,
                           lh_error *error);
void lh_key_list_reset(lh_key_list *list);

/* The key with this digest, or NULL. Every key is compared, each in a time that does not depend on
 * how much of it agrees. */
const lh_key *lh_key_list_find(const lh_key_list *list, const uint8_t digest[LH_SHA256_BYTES]);
