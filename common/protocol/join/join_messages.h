/* What worker and gateway say to each other when one joins, renews its certificate, or asks whether
 * others reach it (JOINING.md). Plain data; texts that are not there are "". Thread: any. */
#pragma once

#include "common/base/name.h"
#include "common/protocol/join/join_token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_JOIN_PROTOCOL_VERSION 1
#define LH_JOIN_PATH             "/join"

/* A certificate is valid from so long before it was issued, for clocks that are behind. */
#define LH_JOIN_BACKDATED_S 3600

/* Of a request, and of an answer. */
#define LH_JOIN_REQUEST_BYTES_MAX (16u << 10)
#define LH_JOIN_ANSWER_BYTES_MAX  (64u << 10)
/* PEM, with the terminator: keys on P-256 make a few hundred bytes, RSA 4096 less than 2,000. */
#define LH_JOIN_CSR_BYTES         4096u
#define LH_JOIN_CERTIFICATE_BYTES 4096u
/* Some dozens of CAs: there are two while one follows another. */
#define LH_JOIN_TRUST_BYTES   (32u << 10)
#define LH_JOIN_ADDRESSES_MAX 8u
#define LH_JOIN_HOST_BYTES    256u
#define LH_JOIN_ADDRESS_BYTES 272u /* HOST:PORT */
#define LH_JOIN_VERSION_BYTES 64u
#define LH_JOIN_MESSAGE_BYTES 256u

/* `POST /join`. */
typedef struct lh_join_request {
    char token[LH_JOIN_ID_BYTES];
    uint8_t secret[LH_JOIN_SECRET_BYTES];
    char name[LH_NAME_BYTES]; /* as it would like to be called; "": as the token says */
    char csr[LH_JOIN_CSR_BYTES];
    /* where others may reach it: names or IP addresses, without ports */
    char addresses[LH_JOIN_ADDRESSES_MAX][LH_JOIN_HOST_BYTES];
    size_t address_count;
    int64_t time_s; /* Unix time at the worker */
    char version[LH_JOIN_VERSION_BYTES];
} lh_join_request;

/* `POST /fleet/workers/{name}/certificate`, over the certificate that it replaces. */
typedef struct lh_join_renewal {
    char csr[LH_JOIN_CSR_BYTES];
    char addresses[LH_JOIN_ADDRESSES_MAX][LH_JOIN_HOST_BYTES];
    size_t address_count;
    int64_t time_s;
} lh_join_renewal;

/* The answer 200 to both. */
typedef struct lh_join_grant {
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES];
    char certificate[LH_JOIN_CERTIFICATE_BYTES]; /* the leaf */
    char trust[LH_JOIN_TRUST_BYTES];             /* all CA certificates that are to be trusted */
    int64_t time_s;                              /* Unix time at the gateway */
    char observed[LH_JOIN_HOST_BYTES]; /* the IP address from which the gateway saw it come */
} lh_join_grant;

/* code, as the body has it, HTTP status. */
#define LH_JOIN_REFUSAL_TABLE(X)                                                                   \
    X(LH_JOIN_MALFORMED, "malformed", 400)                                                         \
    X(LH_JOIN_CSR_INVALID, "csr_invalid", 400)                                                     \
    X(LH_JOIN_NAME_INVALID, "name_invalid", 400)                                                   \
    X(LH_JOIN_CLOCK_WRONG, "clock_wrong", 400)                                                     \
    X(LH_JOIN_TOKEN_UNKNOWN, "token_unknown", 403)                                                 \
    X(LH_JOIN_TOKEN_EXPIRED, "token_expired", 403)                                                 \
    X(LH_JOIN_TOKEN_USED, "token_used", 403)                                                       \
    X(LH_JOIN_TOKEN_REVOKED, "token_revoked", 403)                                                 \
    X(LH_JOIN_NAME_WRONG, "name_wrong", 403)                                                       \
    X(LH_JOIN_NAME_TAKEN, "name_taken", 409)                                                       \
    X(LH_JOIN_TOO_MANY, "too_many", 409)                                                           \
    X(LH_JOIN_PROTOCOL, "protocol", 426)                                                           \
    X(LH_JOIN_BUSY, "busy", 429)                                                                   \
    X(LH_JOIN_NOT_DUE, "not_due", 429)                                                             \
    X(LH_JOIN_UNAVAILABLE, "unavailable", 503)

typedef enum lh_join_refusal_code {
#define X(code, name, status) code,
    LH_JOIN_REFUSAL_TABLE(X)
#undef X
        LH_JOIN_OTHER /* one that this version does not know */
} lh_join_refusal_code;

typedef struct lh_join_refusal {
    lh_join_refusal_code code;
    char message[LH_JOIN_MESSAGE_BYTES];
} lh_join_refusal;

/* "token_used", static storage; 403. Not for LH_JOIN_OTHER. */
const char *lh_join_refusal_name(lh_join_refusal_code code);
int lh_join_refusal_http_status(lh_join_refusal_code code);

/* `POST /fleet/workers/{name}/reach`, and its answer 200: what came of a TLS connection to it. */
typedef struct lh_join_reach {
    bool is_reached;
    bool is_untried;                   /* the gateway does not try that address */
    int64_t us;                        /* how long it took, where it is reached */
    char error[LH_JOIN_MESSAGE_BYTES]; /* why it is not */
} lh_join_reach;
