/* Tokens, joining, renewing, revoking and changing the CA, in a folder as the gateway has it. */
#include "gateway/membership/membership.h"

#include "common/base/log.h"
#include "common/base/state_folder.h"
#include "gateway/membership/admission.h"
#include "tests/gateway/support/certificate_requests.h"
#include "tests/support/failing_malloc.h"

#include <openssl/x509v3.h>

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#undef lh_error

#include <cmocka.h>

#define NOW_S  1800000000LL
#define DAY_S  86400
#define LIFE_S (30 * DAY_S)

typedef struct bench {
    char folder[64];
    lh_membership *membership;
    lh_join_grant grant;
    lh_join_refusal refusal;
} bench;

static lh_membership_options options_of(const bench *b) {
    return (lh_membership_options){.folder = b->folder,
                                   .certificate_life_s = LIFE_S,
                                   .hosts = {"gateway.example", "10.0.0.1"},
                                   .host_count = 2};
}

static int open_bench(void **state) {
    bench *b = calloc(1, sizeof *b);
    lh_log_set_level(LH_LOG_ERROR);
    strcpy(b->folder, "/tmp/longhaul-members-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    lh_membership_options options = options_of(b);
    assert_int_equal(lh_membership_open(&options, NOW_S, &b->membership, NULL), LH_OK);
    *state = b;
    return 0;
}

static int close_bench(void **state) {
    bench *b = *state;
    char command[128];
    lh_membership_close(b->membership);
    snprintf(command, sizeof command, "rm -r %s", b->folder);
    free(b);
    return system(command);
}

static lh_join_token invite(bench *b, const char *name, uint32_t uses, int64_t life_s) {
    const lh_invitation_terms terms = {
        .site = "office", .name = name, .uses_max = uses, .life_s = life_s};
    lh_join_token token;
    assert_int_equal(lh_membership_invite(b->membership, &terms, NOW_S, &token, NULL), LH_OK);
    return token;
}

static lh_join_request *request_with(const lh_join_token *token, const char *name,
                                     const char *csr) {
    static lh_join_request request;
    request = (lh_join_request){.time_s = NOW_S};
    memcpy(request.token, token->id, sizeof request.token);
    memcpy(request.secret, token->secret, sizeof request.secret);
    snprintf(request.name, sizeof request.name, "%s", name);
    snprintf(request.csr, sizeof request.csr, "%s", csr);
    return &request;
}

static bool join_at(bench *b, const lh_join_request *request, int64_t now_s) {
    return lh_certificate_grant_join(lh_membership_issuer(b->membership), request, "192.0.2.7",
                                     now_s, &b->grant, &b->refusal);
}

/* With a key of its own. */
static bool join(bench *b, const lh_join_token *token, const char *name) {
    char *csr = make_new_request();
    bool is_granted = join_at(b, request_with(token, name, csr), NOW_S);
    free(csr);
    return is_granted;
}

static bool is_refused(bench *b, const lh_join_token *token, const char *name,
                       lh_join_refusal_code code) {
    return !join(b, token, name) && b->refusal.code == code && b->refusal.message[0];
}

static lh_records read_records(const bench *b) {
    lh_records records;
    assert_int_equal(lh_records_read(b->folder, &records, NULL), LH_OK);
    return records;
}

/* ---- Joining ---- */

static void a_token_makes_a_member(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "office-1", csr);
    strcpy(request->addresses[0], "office.example");
    strcpy(request->addresses[1], "10.9.9.9");
    request->address_count = 2;
    assert_true(join_at(b, request, NOW_S));
    assert_string_equal(b->grant.name, "office-1");
    assert_string_equal(b->grant.site, "office");
    assert_string_equal(b->grant.observed, "192.0.2.7");
    assert_int_equal(b->grant.time_s, NOW_S);
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_string_equal(names_of(certificate),
                        "URI:longhaul://worker/office-1?site=office, IP Address:192.0.2.7, "
                        "DNS:office.example, IP Address:10.9.9.9");
    assert_true(is_believed(certificate, b->grant.trust, NOW_S));
    assert_true(is_believed(certificate, b->grant.trust, NOW_S + LIFE_S - 1));
    assert_false(is_believed(certificate, b->grant.trust, NOW_S + LIFE_S + 1));
    X509_free(certificate);
    free(csr);
}

static void a_token_is_used_as_often_as_it_says(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 2, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(join(b, &token, "two"));
    assert_true(is_refused(b, &token, "three", LH_JOIN_TOKEN_USED));
}

static void the_same_key_again_is_the_same_joining(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    for (int i = 0; i < 3; i++) {
        assert_true(join_at(b, request_with(&token, i == 2 ? "" : "one", csr), NOW_S + i));
        assert_string_equal(b->grant.name, "one");
    }
    assert_false(join_at(b, request_with(&token, "two", csr), NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_NAME_WRONG);
    assert_false(join_at(b, request_with(&token, "one", csr), NOW_S + 3600));
    assert_int_equal(b->refusal.code, LH_JOIN_TOKEN_EXPIRED);
    lh_records records = read_records(b);
    assert_int_equal(records.invitations[0].use_count, 1);
    lh_records_reset(&records);
    free(csr);
}

static void a_token_ends_at_its_time(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 60);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "one", csr);
    assert_false(join_at(b, request, NOW_S + 60));
    assert_int_equal(b->refusal.code, LH_JOIN_TOKEN_EXPIRED);
    assert_true(join_at(b, request, NOW_S + 59));
    free(csr);
}

/* A clock that was ahead when it was made would make it good for longer than was said. */
static void a_token_of_the_future_is_none(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 60);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "one", csr);
    request->time_s = NOW_S - 40 * DAY_S;
    assert_false(join_at(b, request, NOW_S - 40 * DAY_S));
    assert_int_equal(b->refusal.code, LH_JOIN_TOKEN_EXPIRED);
    request->time_s = NOW_S - 60;
    assert_true(join_at(b, request, NOW_S - 60));
    free(csr);
}

/* The state of a token is told to those alone who have its secret. */
static void another_secret_or_id_is_unknown(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600), other = invite(b, "", 1, 3600);
    lh_join_token mixed = token;
    memcpy(mixed.secret, other.secret, sizeof mixed.secret);
    assert_true(is_refused(b, &mixed, "one", LH_JOIN_TOKEN_UNKNOWN));
    strcpy(mixed.id, "0123456789abcdef");
    assert_true(is_refused(b, &mixed, "one", LH_JOIN_TOKEN_UNKNOWN));
    assert_true(join(b, &token, "one"));
    mixed = token;
    mixed.secret[31] ^= 1;
    assert_true(is_refused(b, &mixed, "one", LH_JOIN_TOKEN_UNKNOWN));
}

static void a_token_of_another_fleet_is_unknown(void **state) {
    bench *b = *state;
    void *other;
    open_bench(&other);
    lh_join_token token = invite(other, "", 1, 3600), own = invite(b, "", 1, 3600);
    assert_memory_not_equal(token.pin, own.pin, sizeof own.pin);
    assert_true(is_refused(b, &token, "one", LH_JOIN_TOKEN_UNKNOWN));
    close_bench(&other);
}

static void a_revoked_token_is_refused(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 2, 3600);
    assert_true(join(b, &token, "one"));
    assert_int_equal(lh_membership_revoke_token(b->membership, token.id, NULL), LH_OK);
    assert_true(is_refused(b, &token, "two", LH_JOIN_TOKEN_REVOKED));
    assert_int_equal(lh_membership_revoke_token(b->membership, "0123456789abcdef", NULL),
                     LH_ERR_NOT_FOUND);
}

static void names_are_the_tokens_or_the_workers(void **state) {
    bench *b = *state;
    lh_join_token named = invite(b, "attic", 1, 3600), open = invite(b, "", 1, 3600);
    assert_true(is_refused(b, &named, "cellar", LH_JOIN_NAME_WRONG));
    assert_null(strstr(b->refusal.message, "attic"));
    assert_true(join(b, &named, ""));
    assert_string_equal(b->grant.name, "attic");
    assert_true(is_refused(b, &open, "", LH_JOIN_NAME_INVALID));
    assert_true(is_refused(b, &open, "attic", LH_JOIN_NAME_TAKEN));
    assert_true(join(b, &open, "cellar"));
}

static void a_name_is_free_when_its_certificate_has_ended(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600), later;
    assert_true(join(b, &token, "one"));
    const lh_invitation_terms terms = {.site = "attic", .name = "", .uses_max = 1, .life_s = 60};
    assert_int_equal(lh_membership_invite(b->membership, &terms, NOW_S + LIFE_S, &later, NULL),
                     LH_OK);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&later, "one", csr);
    request->time_s = NOW_S + LIFE_S;
    assert_true(join_at(b, request, NOW_S + LIFE_S));
    assert_string_equal(b->grant.site, "attic");
    free(csr);
}

static void a_clock_that_is_off_is_told_and_costs_no_use(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "one", csr);
    request->time_s = NOW_S - DAY_S;
    assert_false(join_at(b, request, NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_CLOCK_WRONG);
    assert_non_null(strstr(b->refusal.message, "86400 seconds behind"));
    request->time_s = NOW_S + DAY_S;
    assert_false(join_at(b, request, NOW_S));
    assert_non_null(strstr(b->refusal.message, "86400 seconds ahead"));
    request->time_s = NOW_S + 1800;
    assert_true(join_at(b, request, NOW_S));
    free(csr);
}

/* What a request asks for, and what it says of its addresses. */
static void nobody_gets_the_gateways_names(void **state) {
    bench *b = *state;
    static const char *const claimed[] = {
        "gateway.example", "GATEWAY.example", "10.0.0.1", "not a host",
        "-x.example",      "1.2.3",           "",         "192.0.2.7"};
    lh_join_token token = invite(b, "", 1, 3600);
    EVP_PKEY *key = make_key("P-256");
    char *csr = make_request(key, "gateway", "URI:longhaul://gateway,DNS:gateway.example");
    lh_join_request *request = request_with(&token, "one", csr);
    for (; request->address_count < 8; request->address_count++)
        strcpy(request->addresses[request->address_count], claimed[request->address_count]);
    assert_true(join_at(b, request, NOW_S));
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_string_equal(names_of(certificate),
                        "URI:longhaul://worker/one?site=office, IP Address:192.0.2.7");
    assert_int_equal(X509_check_ca(certificate), 0);
    char subject[128];
    X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof subject);
    assert_string_equal(subject, "/CN=one");
    X509_free(certificate);
    free(csr);
    EVP_PKEY_free(key);
}

static void a_request_that_is_none_costs_no_use(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_false(join_at(b, request_with(&token, "one", "rubbish"), NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_CSR_INVALID);
    assert_true(join(b, &token, "one"));
}

static char *read_file(const bench *b, const char *name) {
    static char *bytes; /* the compiler takes a local one for what is returned */
    size_t length;
    assert_int_equal(lh_state_file_read(b->folder, name, 1 << 20, &bytes, &length, NULL), LH_OK);
    return bytes;
}

static X509 *own_certificate(const bench *b) {
    char *pem = read_file(b, "gateway.pem");
    X509 *certificate = read_certificate(strstr(pem, "-----BEGIN CERTIFICATE"));
    free(pem);
    return certificate;
}

/* By a clock that has been right for long; nobody says which certificate he uses. */
static lh_status look(bench *b, int64_t now_s, bool everybody_believes, lh_membership_view *view) {
    const lh_upkeep_moment moment = {
        .now_s = now_s, .is_clock_settled = true, .everybody_believes = everybody_believes};
    return lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, view, NULL);
}

static void refresh(bench *b, int64_t now_s, bool everybody_believes, lh_membership_view *view) {
    assert_int_equal(look(b, now_s, everybody_believes, view), LH_OK);
}

/* ---- Without memory, without a disk ---- */

static size_t uses_of_first_token(const bench *b) {
    lh_records records = read_records(b);
    size_t count = records.invitations[0].use_count;
    assert_int_equal(records.members.count, count);
    lh_records_reset(&records);
    return count;
}

static void a_joining_that_finds_no_memory_changes_nothing(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "one", csr);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        bool is_granted = join_at(b, request, NOW_S);
        if (!failing_malloc_disarm()) {
            assert_true(is_granted);
            break;
        }
        assert_false(is_granted);
        assert_int_equal(b->refusal.code, LH_JOIN_UNAVAILABLE);
        assert_int_equal(uses_of_first_token(b), 0);
    }
    assert_int_equal(uses_of_first_token(b), 1);
    free(csr);
}

static void a_look_that_finds_no_memory_is_made_again(void **state) {
    bench *b = *state;
    lh_membership_view view;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_status status = look(b, NOW_S, false, &view);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_null(view.trust);
    }
    assert_true(view.is_new);
    assert_int_equal(view.members.count, 1);
    lh_membership_view_reset(&view);
}

/* A folder is in the way of the file that is written aside. */
static void a_joining_that_cannot_be_written_changes_nothing(void **state) {
    bench *b = *state;
    char aside[128];
    lh_join_token token = invite(b, "", 1, 3600);
    snprintf(aside, sizeof aside, "%s/" LH_RECORDS_FILE ".new", b->folder);
    assert_int_equal(mkdir(aside, 0700), 0);
    assert_true(is_refused(b, &token, "one", LH_JOIN_UNAVAILABLE));
    assert_int_equal(uses_of_first_token(b), 0);
    assert_int_equal(rmdir(aside), 0);
    assert_true(join(b, &token, "one"));
}

/* ---- Renewing ---- */

/* The youngest certificate of the name; serial "": there is none. */
static lh_member youngest(const bench *b, const char *name) {
    lh_records records = read_records(b);
    const lh_member *found = lh_member_list_find(&records.members, name);
    lh_member member = found ? *found : (lh_member){0};
    lh_records_reset(&records);
    return member;
}

static bool is_in_records(const bench *b, const char *serial) {
    lh_records records = read_records(b);
    bool is_there = lh_member_list_find_serial(&records.members, serial);
    lh_records_reset(&records);
    return is_there;
}

/* Shows the certificate with this serial number. */
static bool renew_with(bench *b, const lh_member *shown, const char *csr, bool is_where_it_serves,
                       int64_t now_s) {
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

static bool renew_from(bench *b, const lh_member *shown, bool is_where_it_serves, int64_t now_s) {
    char *csr = make_new_request();
    bool is_granted = renew_with(b, shown, csr, is_where_it_serves, now_s);
    free(csr);
    return is_granted;
}

/* With the youngest certificate, and a key of its own. */
static bool renew(bench *b, const char *name, int64_t now_s) {
    const lh_member shown = youngest(b, name);
    return renew_from(b, &shown, true, now_s);
}

static void a_member_renews_with_a_fresh_key(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(renew(b, "one", NOW_S + LIFE_S / 2));
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_true(is_believed(certificate, b->grant.trust, NOW_S + LIFE_S + DAY_S));
    assert_non_null(strstr(names_of(certificate), "IP Address:192.0.2.8"));
    X509_free(certificate);
    assert_false(renew(b, "nobody", NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_TOKEN_REVOKED);
}

static void a_certificate_is_renewed_when_half_of_its_life_is_over(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_false(renew(b, "one", NOW_S + LIFE_S / 2 - 1));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
    assert_non_null(strstr(b->refusal.message, "2027-01-30T08:00:00Z")); /* from then on */
    assert_true(renew(b, "one", NOW_S + LIFE_S / 2));
    assert_false(renew(b, "one", NOW_S + LIFE_S / 2));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
}

/* A copy of the key asks again and again, in time and out of it. */
static void a_copied_key_ousts_nobody(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    const lh_member in_use = youngest(b, "one");
    for (int i = 0; i < 20; i++)
        assert_false(renew_from(b, &in_use, false, NOW_S + i));
    assert_true(is_in_records(b, in_use.serial));
    const int64_t due_s = NOW_S + LIFE_S * 2 / 3;
    for (int i = 0; i < 20; i++)
        assert_int_equal(renew_from(b, &in_use, false, due_s + i),
                         i + 1 < (int)LH_ADMISSION_ANYWHERE_MAX);
    assert_int_equal(b->refusal.code, LH_JOIN_TOO_MANY);
    assert_true(is_in_records(b, in_use.serial));
    assert_true(renew_from(b, &in_use, true, due_s + 60)); /* the worker itself */
    assert_true(is_in_records(b, in_use.serial));
}

/* The gateway's answer was lost, or the disk that should have kept it. */
static void the_same_key_again_gets_the_same_certificate(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    assert_true(join(b, &token, "one"));
    const lh_member first = youngest(b, "one");
    const int64_t due_s = NOW_S + LIFE_S * 2 / 3;
    assert_true(renew_with(b, &first, csr, true, due_s));
    const lh_member renewed = youngest(b, "one");
    for (int i = 0; i < 20; i++) {
        assert_true(renew_with(b, i % 2 ? &first : &renewed, csr, false, due_s + i));
        assert_string_equal(youngest(b, "one").serial, renewed.serial);
        X509 *certificate = read_certificate(b->grant.certificate);
        lh_tls_serial serial;
        lh_tls_serial_of(certificate, serial);
        assert_string_equal(serial, renewed.serial);
        assert_true(is_believed(certificate, b->grant.trust, due_s + LIFE_S - 1));
        assert_false(is_believed(certificate, b->grant.trust, due_s + LIFE_S + 1));
        X509_free(certificate);
    }
    lh_records records = read_records(b);
    assert_int_equal(records.members.count, 2);
    lh_records_reset(&records);
    free(csr);
}

static void joining_again_and_again_fills_nothing(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    for (int i = 0; i < 20; i++)
        assert_true(join_at(b, request_with(&token, "one", csr), NOW_S + i));
    lh_records records = read_records(b);
    assert_int_equal(records.members.count, 1);
    lh_records_reset(&records);
    free(csr);
}

/* As one whose disk forgets every renewal: what has ended makes room. */
static void renewals_do_not_fill_the_records(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    int64_t now_s = NOW_S;
    for (int i = 0; i < 20; i++) {
        now_s += LIFE_S * 2 / 3;
        assert_true(renew(b, "one", now_s));
    }
    lh_records records = read_records(b);
    assert_in_range(records.members.count, 2, LH_MEMBER_CERTIFICATES_MAX);
    assert_int_equal(records.members.members[records.members.count - 1].issued_s, now_s);
    lh_records_reset(&records);
}

/* ---- A clock that is wrong for a while ---- */

static void what_was_issued_ahead_of_time_is_renewed_at_once(void **state) {
    bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(renew(b, "one", NOW_S + 20 * DAY_S)); /* both clocks are ahead */
    const lh_member early = youngest(b, "one");
    assert_true(renew(b, "one", NOW_S + 60));
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_true(is_believed(certificate, b->grant.trust, NOW_S + 60));
    X509_free(certificate);
    assert_string_not_equal(youngest(b, "one").serial, early.serial);
    assert_false(renew(b, "one", NOW_S + 61));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
}

/* Ahead by 40 days, while somebody joins: nobody is forgotten. */
static void a_clock_that_was_ahead_has_forgotten_nobody(void **state) {
    bench *b = *state;
    lh_membership_view view;
    lh_join_token token = invite(b, "", 2, 60 * DAY_S);
    assert_true(join(b, &token, "one"));
    const lh_member in_use = youngest(b, "one");
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "two", csr);
    request->time_s = NOW_S + 40 * DAY_S;
    assert_true(join_at(b, request, NOW_S + 40 * DAY_S));
    free(csr);
    refresh(b, NOW_S + 40 * DAY_S, false, &view);
    assert_true(view.is_new);
    assert_non_null(lh_member_list_find_serial(&view.members, in_use.serial));
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 6, false, &view);
    assert_true(view.is_new); /* the gateway's own certificate is of the future */
    assert_non_null(lh_member_list_find_serial(&view.members, in_use.serial));
    X509 *own = own_certificate(b);
    assert_true(is_believed(own, view.trust, NOW_S + 6));
    X509_free(own);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 7, false, &view);
    assert_false(view.is_new);
}

static void no_ca_changes_by_a_clock_that_was_just_set(void **state) {
    bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES];
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    lh_upkeep_moment moment = {.now_s = NOW_S + 40 * DAY_S};
    assert_int_equal(lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, &view, NULL),
                     LH_OK);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    moment.is_clock_settled = true;
    moment.now_s += 60;
    assert_int_equal(lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, &view, NULL),
                     LH_OK);
    assert_false(view.has_next);
    lh_membership_view_reset(&view);
}

/* ---- A disk that takes nothing ---- */

static void starting_writes_nothing_where_nothing_has_changed(void **state) {
    bench *b = *state;
    lh_membership_view view;
    char path[128];
    lh_membership_options options = options_of(b);
    static const char *const names[] = {LH_RECORDS_FILE, LH_TRUST_FILE, LH_OWN_CERTIFICATE_FILE};
    struct stat before[3], after;
    assert_int_equal(lh_membership_note_listen(b->membership, "127.0.0.1:7100", NULL), LH_OK);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", b->folder, names[i]);
        assert_int_equal(stat(path, &before[i]), 0);
    }
    lh_membership_close(b->membership);
    assert_int_equal(lh_membership_open(&options, NOW_S + 60, &b->membership, NULL), LH_OK);
    assert_int_equal(lh_membership_note_listen(b->membership, "127.0.0.1:7100", NULL), LH_OK);
    refresh(b, NOW_S + 60, false, &view);
    assert_true(view.is_new);
    lh_membership_view_reset(&view);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", b->folder, names[i]);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_ino, before[i].st_ino);
    }
}

static void another_name_of_the_gateway_is_another_certificate(void **state) {
    bench *b = *state;
    lh_membership_view view;
    lh_membership_options options = options_of(b);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    lh_membership_close(b->membership);
    options.hosts[0] = "other.example";
    assert_int_equal(lh_membership_open(&options, NOW_S, &b->membership, NULL), LH_OK);
    refresh(b, NOW_S + 60, false, &view);
    lh_membership_view_reset(&view);
    X509 *own = own_certificate(b);
    assert_string_equal(names_of(own),
                        "URI:longhaul://gateway, DNS:other.example, IP Address:10.0.0.1");
    X509_free(own);
}

/* ---- Revoking ---- */

static void a_revoked_worker_is_out_until_it_is_asked_again(void **state) {
    bench *b = *state;
    lh_membership_view view;
    lh_join_token token = invite(b, "", 5, 3600), other = invite(b, "", 5, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(join(b, &other, "two"));
    assert_int_equal(lh_membership_revoke_worker(b->membership, "one", NOW_S, NULL), LH_OK);
    assert_int_equal(lh_membership_revoke_worker(b->membership, "one", NOW_S, NULL),
                     LH_ERR_NOT_FOUND);
    assert_false(renew(b, "one", NOW_S));
    refresh(b, NOW_S, false, &view);
    assert_int_equal(view.members.count, 1);
    assert_string_equal(view.members.members[0].name, "two");
    lh_membership_view_reset(&view);
    /* it knows the secret of the token with which it came */
    assert_true(is_refused(b, &token, "one", LH_JOIN_TOKEN_REVOKED));
    assert_true(join(b, &other, "one"));
}

/* ---- The gateway's own files ---- */

static void the_gateway_has_a_certificate_of_its_own(void **state) {
    bench *b = *state;
    lh_membership_view view;
    refresh(b, NOW_S, false, &view);
    assert_true(view.is_new);
    lh_tls_options tls = lh_membership_tls(b->membership);
    lh_tls_credentials *credentials;
    assert_int_equal(lh_tls_credentials_create(&tls, &credentials, NULL), LH_OK);
    lh_tls_credentials_destroy(credentials);
    X509 *certificate = own_certificate(b);
    assert_string_equal(names_of(certificate),
                        "URI:longhaul://gateway, DNS:gateway.example, IP Address:10.0.0.1");
    assert_true(is_believed(certificate, view.trust, NOW_S));
    X509_free(certificate);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 5, false, &view);
    assert_false(view.is_new);
}

static void it_renews_its_own_before_it_ends(void **state) {
    bench *b = *state;
    lh_membership_view view;
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + LIFE_S * 2 / 3 - 1, false, &view);
    assert_false(view.is_new);
    refresh(b, NOW_S + LIFE_S * 2 / 3, false, &view);
    assert_true(view.is_new);
    X509 *certificate = own_certificate(b);
    assert_true(is_believed(certificate, view.trust, NOW_S + LIFE_S + DAY_S));
    X509_free(certificate);
    lh_membership_view_reset(&view);
}

static void what_others_change_is_seen(void **state) {
    bench *b = *state;
    lh_membership *command;
    lh_membership_view view;
    lh_membership_options options = {.folder = b->folder};
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    refresh(b, NOW_S, false, &view);
    assert_int_equal(view.members.count, 1);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_open_existing(&options, &command, NULL), LH_OK);
    assert_int_equal(lh_membership_revoke_worker(command, "one", NOW_S, NULL), LH_OK);
    lh_membership_close(command);
    refresh(b, NOW_S, false, &view);
    assert_true(view.is_new);
    assert_int_equal(view.members.count, 0);
    lh_membership_view_reset(&view);
}

static void a_folder_without_a_fleet_is_told(void **state) {
    bench *b = *state;
    lh_membership *command;
    lh_error error;
    char folder[96];
    snprintf(folder, sizeof folder, "%s/empty", b->folder);
    assert_int_equal(lh_state_folder_make(folder, NULL), LH_OK);
    lh_membership_options options = {.folder = folder};
    assert_int_equal(lh_membership_open_existing(&options, &command, &error), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "--state-dir"));
}

static void damaged_records_are_refused(void **state) {
    bench *b = *state;
    static const char *const damaged[] = {"", "{", "{}", "{\"version\":2}",
                                          "{\"version\":1,\"fleet_listen\":\"\","
                                          "\"authorities\":[],\"tokens\":[],\"members\":[]}"};
    lh_membership_options options = options_of(b);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        lh_membership *again;
        lh_error error;
        assert_int_equal(
            lh_state_file_write(b->folder, LH_RECORDS_FILE, damaged[i], strlen(damaged[i]), NULL),
            LH_OK);
        assert_int_equal(lh_membership_open(&options, NOW_S, &again, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, LH_RECORDS_FILE));
    }
}

/* ---- Another CA ---- */

static void one_ca_follows_another(void **state) {
    bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES], before_sha256[LH_SHA256_HEX_BYTES];
    lh_join_token token = invite(b, "", 5, 3600);
    assert_true(join(b, &token, "one"));
    X509 *old = read_certificate(b->grant.certificate);
    refresh(b, NOW_S, false, &view);
    assert_false(view.has_next);
    memcpy(before_sha256, view.trust_sha256, sizeof before_sha256);
    lh_membership_view_reset(&view);

    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_ERR_BUSY);
    refresh(b, NOW_S, true, &view); /* they believe the bundle before */
    assert_true(view.has_next);
    assert_string_not_equal(view.trust_sha256, before_sha256);
    lh_membership_view_reset(&view);
    assert_true(join(b, &token, "two"));
    X509 *meanwhile = read_certificate(b->grant.certificate);

    refresh(b, NOW_S + 1, false, &view);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 2, true, &view);
    assert_true(view.is_new);
    assert_false(view.has_next);
    assert_true(is_believed(old, view.trust, NOW_S));
    assert_true(is_believed(meanwhile, view.trust, NOW_S));
    X509 *own = own_certificate(b);
    assert_true(is_believed(own, view.trust, NOW_S));
    lh_membership_view_reset(&view);

    assert_true(renew(b, "one", NOW_S + 3));
    assert_true(renew(b, "two", NOW_S + 3));
    X509 *renewed = read_certificate(b->grant.certificate);
    refresh(b, NOW_S + 60, false, &view); /* a copy of their keys may have renewed */
    assert_true(is_believed(old, view.trust, NOW_S));
    lh_membership_view_reset(&view);
    lh_certificates_in_use *in_use = calloc(1, sizeof *in_use);
    lh_certificates_in_use_note(in_use, "one", youngest(b, "one").expires_s);
    lh_certificates_in_use_note(in_use, "two", NOW_S + LIFE_S);
    lh_upkeep_moment moment = {.now_s = NOW_S + 80, .is_clock_settled = true, .in_use = in_use};
    lh_upkeep *upkeep = lh_membership_upkeep(b->membership);
    assert_int_equal(lh_upkeep_refresh(upkeep, &moment, &view, NULL), LH_OK);
    assert_false(view.is_new); /* two uses the one before */
    lh_certificates_in_use_note(in_use, "two", youngest(b, "two").expires_s);
    moment.now_s += 20;
    assert_int_equal(lh_upkeep_refresh(upkeep, &moment, &view, NULL), LH_OK);
    free(in_use);
    assert_true(view.is_new);
    assert_false(is_believed(old, view.trust, NOW_S));
    assert_true(is_believed(renewed, view.trust, NOW_S));
    assert_true(is_believed(own, view.trust, NOW_S));
    lh_membership_view_reset(&view);
    lh_records records = read_records(b);
    assert_int_equal(records.authorities.count, 1);
    lh_records_reset(&records);
    X509_free(old);
    X509_free(meanwhile);
    X509_free(renewed);
    X509_free(own);
}

static void whoever_is_off_is_waited_for_until_the_overlap_is_over(void **state) {
    bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES];
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    refresh(b, NOW_S + DAY_S - 1, false, &view);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + DAY_S + 10, false, &view);
    assert_false(view.has_next);
    lh_membership_view_reset(&view);
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    lh_records records = read_records(b);
    assert_string_equal(records.members.members[0].authority, next);
    lh_records_reset(&records);
}

/* The key of a CA that signs no more is not kept. */
static void old_keys_are_dropped(void **state) {
    bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES], name[64];
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    lh_records records = read_records(b);
    snprintf(name, sizeof name, "ca-%s.pem", records.authorities.entries[0].id);
    lh_records_reset(&records);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    char *pem = read_file(b, name);
    assert_non_null(strstr(pem, "PRIVATE KEY"));
    free(pem);
    refresh(b, NOW_S, true, &view);
    lh_membership_view_reset(&view);
    pem = read_file(b, name);
    assert_null(strstr(pem, "PRIVATE KEY"));
    assert_non_null(strstr(pem, "CERTIFICATE"));
    free(pem);
}

/* ---- Killed, and many at once ---- */

/* All that it does in a life, for a process that is killed somewhere in it. */
static void live_through(bench *b) {
    lh_membership_view view;
    char id[LH_AUTHORITY_ID_BYTES];
    lh_membership_options options = options_of(b);
    if (lh_membership_open(&options, NOW_S, &b->membership, NULL) != LH_OK)
        _exit(1);
    for (int i = 0; i < 1000; i++) {
        lh_join_token token = invite(b, "", 1, 3600);
        char name[32];
        snprintf(name, sizeof name, "worker-%d-%d", (int)getpid(), i);
        join(b, &token, name);
        renew(b, name, NOW_S);
        lh_membership_rotate(b->membership, NOW_S, DAY_S, id, NULL);
        look(b, NOW_S, i % 2 == 0, &view);
        lh_membership_view_reset(&view);
        lh_membership_revoke_worker(b->membership, name, NOW_S, NULL);
        look(b, NOW_S + 20 * i, true, &view);
        lh_membership_view_reset(&view);
    }
    _exit(0);
}

/* Wherever it is killed, the next one finds a fleet that is whole. */
static void a_kill_at_any_moment_leaves_it_whole(void **state) {
    bench *b = *state;
    srandom(1);
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0)
            live_through(b);
        usleep((useconds_t)(random() % 30000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        lh_membership *again;
        lh_membership_view view;
        lh_error error;
        lh_membership_options options = options_of(b);
        if (lh_membership_open(&options, NOW_S, &again, &error) != LH_OK)
            fail_msg("%s", error.message);
        const lh_upkeep_moment moment = {.now_s = NOW_S};
        if (lh_upkeep_refresh(lh_membership_upkeep(again), &moment, &view, &error) != LH_OK)
            fail_msg("%s", error.message);
        X509 *own = own_certificate(b);
        assert_true(is_believed(own, view.trust, NOW_S));
        X509_free(own);
        lh_membership_view_reset(&view);
        lh_membership_close(again);
    }
}

static void many_processes_join_at_once(void **state) {
    enum { PROCESSES = 4, EACH = 10 };
    bench *b = *state;
    lh_join_token token = invite(b, "", PROCESSES * EACH - 1, 3600);
    int granted = 0;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            int count = 0;
            for (int j = 0; j < EACH; j++) {
                char name[32];
                snprintf(name, sizeof name, "worker-%d-%d", i, j);
                count += join(b, &token, name);
            }
            _exit(count);
        }
    for (int i = 0, status; i < PROCESSES; i++) {
        assert_true(wait(&status) > 0);
        granted += WEXITSTATUS(status);
    }
    assert_int_equal(granted, PROCESSES * EACH - 1);
    lh_records records = read_records(b);
    assert_int_equal(records.members.count, PROCESSES * EACH - 1);
    lh_records_reset(&records);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(a_token_makes_a_member),
        TEST(a_token_is_used_as_often_as_it_says),
        TEST(the_same_key_again_is_the_same_joining),
        TEST(a_token_ends_at_its_time),
        TEST(a_token_of_the_future_is_none),
        TEST(another_secret_or_id_is_unknown),
        TEST(a_token_of_another_fleet_is_unknown),
        TEST(a_revoked_token_is_refused),
        TEST(names_are_the_tokens_or_the_workers),
        TEST(a_name_is_free_when_its_certificate_has_ended),
        TEST(a_clock_that_is_off_is_told_and_costs_no_use),
        TEST(nobody_gets_the_gateways_names),
        TEST(a_request_that_is_none_costs_no_use),
        TEST(a_joining_that_finds_no_memory_changes_nothing),
        TEST(a_look_that_finds_no_memory_is_made_again),
        TEST(a_joining_that_cannot_be_written_changes_nothing),
        TEST(a_member_renews_with_a_fresh_key),
        TEST(a_certificate_is_renewed_when_half_of_its_life_is_over),
        TEST(a_copied_key_ousts_nobody),
        TEST(the_same_key_again_gets_the_same_certificate),
        TEST(joining_again_and_again_fills_nothing),
        TEST(renewals_do_not_fill_the_records),
        TEST(what_was_issued_ahead_of_time_is_renewed_at_once),
        TEST(a_clock_that_was_ahead_has_forgotten_nobody),
        TEST(no_ca_changes_by_a_clock_that_was_just_set),
        TEST(starting_writes_nothing_where_nothing_has_changed),
        TEST(another_name_of_the_gateway_is_another_certificate),
        TEST(a_revoked_worker_is_out_until_it_is_asked_again),
        TEST(the_gateway_has_a_certificate_of_its_own),
        TEST(it_renews_its_own_before_it_ends),
        TEST(what_others_change_is_seen),
        TEST(a_folder_without_a_fleet_is_told),
        TEST(damaged_records_are_refused),
        TEST(one_ca_follows_another),
        TEST(whoever_is_off_is_waited_for_until_the_overlap_is_over),
        TEST(old_keys_are_dropped),
        TEST(a_kill_at_any_moment_leaves_it_whole),
        TEST(many_processes_join_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
