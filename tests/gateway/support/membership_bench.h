/* A fleet in a folder of its own, as the gateway has it; who is invited to it, joins and renews. */
#pragma once

#include "common/base/log.h"
#include "common/base/state_folder.h"
#include "gateway/membership/membership.h"
#include "tests/gateway/support/certificate_requests.h"

#define NOW_S  1800000000LL
#define DAY_S  86400
#define LIFE_S (30 * DAY_S)

typedef struct membership_bench {
    char folder[64];
    lh_membership *membership;
    lh_join_grant grant;
    lh_join_refusal refusal;
} membership_bench;

/* cmocka's set-up and teardown; *state is the bench. */
int membership_bench_open(void **state);
int membership_bench_close(void **state);
lh_membership_options membership_options_of(const membership_bench *b);

/* ---- Joining ---- */

lh_join_token invite(membership_bench *b, const char *name, uint32_t uses, int64_t life_s);
/* Static, until the next call. */
lh_join_request *request_with(const lh_join_token *token, const char *name, const char *csr);
bool join_at(membership_bench *b, const lh_join_request *request, int64_t now_s);
/* With a key of its own. */
bool join(membership_bench *b, const lh_join_token *token, const char *name);

/* ---- What there is ---- */

lh_records read_records(const membership_bench *b);
/* malloc'd. */
char *read_file(const membership_bench *b, const char *name);
X509 *own_certificate(const membership_bench *b);
/* The youngest certificate of the name; serial "": there is none. */
lh_member youngest(const membership_bench *b, const char *name);
/* By a clock that has been right for long; nobody says which certificate he uses. */
lh_status look(membership_bench *b, int64_t now_s, bool everybody_believes,
               lh_membership_view *view);
void refresh(membership_bench *b, int64_t now_s, bool everybody_believes, lh_membership_view *view);

/* ---- Renewing ---- */

/* Shows the certificate with this serial number. */
bool renew_with(membership_bench *b, const lh_member *shown, const char *csr,
                bool is_where_it_serves, int64_t now_s);
bool renew_from(membership_bench *b, const lh_member *shown, bool is_where_it_serves,
                int64_t now_s);
/* With the youngest certificate, and a key of its own. */
bool renew(membership_bench *b, const char *name, int64_t now_s);
