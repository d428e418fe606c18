/* Commands and requests of one process. */
#include "tests/gateway/support/membership_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef lh_error

#include <cmocka.h>

lh_membership_options membership_options_of(const membership_bench *b) {
    return (lh_membership_options){.folder = b->folder,
                                   .certificate_life_s = LIFE_S,
                                   .hosts = {"gateway.example", "10.0.0.1"},
                                   .host_count = 2};
}

int membership_bench_open(void **state) {
    membership_bench *b = calloc(1, sizeof *b);
    lh_log_set_level(LH_LOG_ERROR);
    strcpy(b->folder, "/tmp/longhaul-members-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    lh_membership_options options = membership_options_of(b);
    assert_int_equal(lh_membership_open(&options, NOW_S, &b->membership, NULL), LH_OK);
    *state = b;
    return 0;
}

int membership_bench_close(void **state) {
    membership_bench *b = *state;
    char command[128];
    lh_membership_close(b->membership);
    snprintf(command, sizeof command, "rm -r %s", b->folder);
    free(b);
    return system(command);
}

lh_join_token invite(membership_bench *b, const char *name, uint32_t uses, int64_t life_s) {
    const lh_invitation_terms terms = {
        .site = "office", .name = name, .uses_max = uses, .life_s = life_s};
    lh_join_token token;
    assert_int_equal(lh_membership_invite(b->membership, &terms, NOW_S, &token, NULL), LH_OK);
    return token;
}

lh_join_request *request_with(const lh_join_token *token, const char *name, const char *csr) {
    static lh_join_request request;
    request = (lh_join_request){.time_s = NOW_S};
    memcpy(request.token, token->id, sizeof request.token);
    memcpy(request.secret, token->secret, sizeof request.secret);
    snprintf(request.name, sizeof request.name, "%s", name);
    snprintf(request.csr, sizeof request.csr, "%s", csr);
    return &request;
}

bool join_at(membership_bench *b, const lh_join_request *request, int64_t now_s) {
    return lh_certificate_grant_join(lh_membership_issuer(b->membership), request, "192.0.2.7",
                                     now_s, &b->grant, &b->refusal);
}

/* With a key of its own. */
bool join(membership_bench *b, const lh_join_token *token, const char *name) {
    char *csr = make_new_request();
    bool is_granted = join_at(b, request_with(token, name, csr), NOW_S);
    free(csr);
    return is_granted;
}

lh_records read_records(const membership_bench *b) {
    lh_records records;
    assert_int_equal(lh_records_read(b->folder, &records, NULL), LH_OK);
    return records;
}

char *read_file(const membership_bench *b, const char *name) {
    static char *bytes; /* the compiler takes a local one for what is returned */
    size_t length;
    assert_int_equal(lh_state_file_read(b->folder, name, 1 << 20, &bytes, &length, NULL), LH_OK);
    return bytes;
}

X509 *own_certificate(const membership_bench *b) {
    char *pem = read_file(b, "gateway.pem");
    X509 *certificate = read_certificate(strstr(pem, "-----BEGIN CERTIFICATE"));
    free(pem);
    return certificate;
}

/* By a clock that has been right for long; nobody says which certificate he uses. */
lh_status look(membership_bench *b, int64_t now_s, bool everybody_believes,
               lh_membership_view *view) {
    const lh_upkeep_moment moment = {
        .now_s = now_s, .is_clock_settled = true, .everybody_believes = everybody_believes};
    return lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, view, NULL);
}

void refresh(membership_bench *b, int64_t now_s, bool everybody_believes,
             lh_membership_view *view) {
    assert_int_equal(look(b, now_s, everybody_believes, view), LH_OK);
}

/* The youngest certificate of the name; serial "": there is none. */
lh_member youngest(const membership_bench *b, const char *name) {
    lh_records records = read_records(b);
    const lh_member *found = lh_member_list_find(&records.members, name);
    lh_member member = found ? *found : (lh_member){0};
    lh_records_reset(&records);
    return member;
}

/* Shows the certificate with this serial number. */
bool renew_with(membership_bench *b, const lh_member *shown, const char *csr,
                bool is_where_it_serves, int64_t now_s) {
    static lh_join_renewal renewal;
    const lh_renewing_member member = {.name = shown->name[0] ? shown->name : "nobody",
                                       .site = "office",
                                       .serial = shown->serial,
                                       .observed = "192.0.2.8",
                                       .is_where_it_serves = is_where_it_serves};
    renewal = (lh_join_renewal){.time_s = now_s};
    snprintf(renewal.csr, sizeof renewal.csr, "%s", csr);
    return lh_certificate_grant_renewal(lh_membership_issuer(b->membership), &member, &renewal,
                                        now_s, &b->grant, &b->refusal);
}

bool renew_from(membership_bench *b, const lh_member *shown, bool is_where_it_serves,
                int64_t now_s) {
    char *csr = make_new_request();
    bool is_granted = renew_with(b, shown, csr, is_where_it_serves, now_s);
    free(csr);
    return is_granted;
}

/* With the youngest certificate, and a key of its own. */
bool renew(membership_bench *b, const char *name, int64_t now_s) {
    const lh_member shown = youngest(b, name);
    return renew_from(b, &shown, true, now_s);
}
