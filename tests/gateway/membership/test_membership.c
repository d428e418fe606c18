/* Tokens, joining and revoking, in a folder as the gateway has it. */
#include "gateway/membership/membership.h"

#include "tests/gateway/support/membership_bench.h"
#include "tests/support/failing_malloc.h"

#include <openssl/x509v3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#undef lh_error

#include <cmocka.h>

static bool is_refused(membership_bench *b, const lh_join_token *token, const char *name,
                       lh_join_refusal_code code) {
    return !join(b, token, name) && b->refusal.code == code && b->refusal.message[0];
}

/* ---- Joining ---- */

static void a_token_makes_a_member(void **state) {
    membership_bench *b = *state;
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
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 2, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(join(b, &token, "two"));
    assert_true(is_refused(b, &token, "three", LH_JOIN_TOKEN_USED));
}

static void the_same_key_again_is_the_same_joining(void **state) {
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
    void *other;
    membership_bench_open(&other);
    lh_join_token token = invite(other, "", 1, 3600), own = invite(b, "", 1, 3600);
    assert_memory_not_equal(token.pin, own.pin, sizeof own.pin);
    assert_true(is_refused(b, &token, "one", LH_JOIN_TOKEN_UNKNOWN));
    membership_bench_close(&other);
}

static void a_revoked_token_is_refused(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 2, 3600);
    assert_true(join(b, &token, "one"));
    assert_int_equal(lh_membership_revoke_token(b->membership, token.id, NULL), LH_OK);
    assert_true(is_refused(b, &token, "two", LH_JOIN_TOKEN_REVOKED));
    assert_int_equal(lh_membership_revoke_token(b->membership, "0123456789abcdef", NULL),
                     LH_ERR_NOT_FOUND);
}

static void names_are_the_tokens_or_the_workers(void **state) {
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_false(join_at(b, request_with(&token, "one", "rubbish"), NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_CSR_INVALID);
    assert_true(join(b, &token, "one"));
}

/* ---- Without memory, without a disk ---- */

static size_t uses_of_first_token(const membership_bench *b) {
    lh_records records = read_records(b);
    size_t count = records.invitations[0].use_count;
    assert_int_equal(records.members.count, count);
    lh_records_reset(&records);
    return count;
}

static void a_joining_that_finds_no_memory_changes_nothing(void **state) {
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
    char aside[128];
    lh_join_token token = invite(b, "", 1, 3600);
    snprintf(aside, sizeof aside, "%s/" LH_RECORDS_FILE ".new", b->folder);
    assert_int_equal(mkdir(aside, 0700), 0);
    assert_true(is_refused(b, &token, "one", LH_JOIN_UNAVAILABLE));
    assert_int_equal(uses_of_first_token(b), 0);
    assert_int_equal(rmdir(aside), 0);
    assert_true(join(b, &token, "one"));
}

/* ---- Revoking ---- */

static void a_revoked_worker_is_out_until_it_is_asked_again(void **state) {
    membership_bench *b = *state;
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

/* ---- Commands beside it ---- */

static void what_others_change_is_seen(void **state) {
    membership_bench *b = *state;
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
    membership_bench *b = *state;
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
    membership_bench *b = *state;
    static const char *const damaged[] = {"", "{", "{}", "{\"version\":2}",
                                          ("{\"version\":1,\"fleet_listen\":\"\","
                                           "\"authorities\":[],\"tokens\":[],\"members\":[]}")};
    lh_membership_options options = membership_options_of(b);
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

/* ---- Killed, and many at once ---- */

/* All that it does in a life, for a process that is killed somewhere in it. */
static void live_through(membership_bench *b) {
    lh_membership_view view;
    char id[LH_AUTHORITY_ID_BYTES];
    lh_membership_options options = membership_options_of(b);
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
    membership_bench *b = *state;
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
        lh_membership_options options = membership_options_of(b);
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
    membership_bench *b = *state;
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
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, membership_bench_open, membership_bench_close)
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
        TEST(a_revoked_worker_is_out_until_it_is_asked_again),
        TEST(what_others_change_is_seen),
        TEST(a_folder_without_a_fleet_is_told),
        TEST(damaged_records_are_refused),
        TEST(a_kill_at_any_moment_leaves_it_whole),
        TEST(many_processes_join_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
