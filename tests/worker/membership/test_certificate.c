/* Certificates that are what they should be, and those that are not. */
#include "worker/membership/certificate.h"

#include "tests/support/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define WORKER "URI:longhaul://worker/attic?site=home"

static authority ca;

static int make_certificates(void **state) {
    (void)state;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "One", NULL, 30);
    authority_issue(&ca, "next", NULL, "Two", NULL, 30);
    authority_issue(&ca, "worker", "ca", "?", WORKER, 20);
    authority_issue(&ca, "ended", "ca", "?", WORKER, -1);
    authority_issue(&ca, "later", "next", "?", WORKER, 20);
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 20);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

/* The text of a file; of two, one after the other. */
static const char *text(const char *name, const char *ending, const char *second) {
    static char texts[8][8192];
    static int turn;
    char *all = texts[turn++ % 8], path[160];
    size_t length = 0;
    for (int i = 0; i < 2 && (i == 0 || second); i++) {
        snprintf(path, sizeof path, "%s/%s.%s", ca.folder, i == 0 ? name : second, ending);
        FILE *file = fopen(path, "r");
        length += fread(all + length, 1, sizeof texts[0] - 1 - length, file);
        fclose(file);
    }
    all[length] = '\0';
    return all;
}

static void its_life_is_read(void **state) {
    (void)state;
    lh_certificate_life life;
    int64_t now_s = (int64_t)time(NULL);
    assert_int_equal(lh_certificate_read_life(text("worker", "pem", NULL), &life, NULL), LH_OK);
    assert_true(llabs(life.not_after_s - now_s - 20 * 86400) < 60);
    assert_true(llabs(now_s - 10 * 86400 - life.not_before_s) < 60);
    assert_int_equal(lh_certificate_read_life("x", &life, NULL), LH_ERR_INVALID);
}

static void it_is_renewed_at_two_thirds_of_its_life(void **state) {
    (void)state;
    /* issued at 3600, since it is valid from an hour before */
    lh_certificate_life month = {0, 3600 + 30 * 86400}, seconds = {0, 3600 + 12}, odd = {0, 10};
    assert_int_equal(lh_certificate_renewal_s(&month), 3600 + 20 * 86400);
    assert_int_equal(lh_certificate_renewal_s(&seconds), 3600 + 8);
    assert_int_equal(lh_certificate_renewal_s(&odd), 10);
}

static void check(const char *certificate, const char *key, const char *trust, const char *name,
                  const char *site, const char *complaint) {
    lh_error error = {.message = ""};
    lh_status status = lh_certificate_check(certificate, key, trust, name, site, &error);
    assert_int_equal(status, complaint ? LH_ERR_INVALID : LH_OK);
    if (complaint && !strstr(error.message, complaint))
        fail_msg("\"%s\" does not say \"%s\"", error.message, complaint);
}

static void only_ones_own_will_do(void **state) {
    (void)state;
    const char *worker = text("worker", "pem", NULL), *key = text("worker", "key", NULL),
               *trust = text("ca", "pem", NULL);
    check(worker, key, trust, "attic", "home", NULL);
    check(worker, key, text("next", "pem", "ca"), "attic", "home", NULL);
    /* the clock is another question */
    check(text("ended", "pem", NULL), text("ended", "key", NULL), trust, "attic", "home", NULL);
    check(worker, text("later", "key", NULL), trust, "attic", "home", "another key");
    check(worker, "", trust, "attic", "home", "another key");
    check(worker, key, "", "attic", "home", "no CA");
    check(worker, key, trust, "cellar", "home", "not for worker cellar");
    check(worker, key, trust, "attic", "office", "on site office");
    check("", key, trust, "attic", "home", "no certificate");
}

static void nobody_elses_will_do(void **state) {
    (void)state;
    const char *trust = text("ca", "pem", NULL);
    check(text("later", "pem", NULL), text("later", "key", NULL), trust, "attic", "home", "no CA");
    check(text("gateway", "pem", NULL), text("gateway", "key", NULL), trust, "attic", "home",
          "not for worker");
}

static void the_first_ca_is_the_one_that_signs(void **state) {
    (void)state;
    const char *worker = text("worker", "pem", NULL);
    assert_true(lh_certificate_is_by_first(worker, text("ca", "pem", "next")));
    assert_false(lh_certificate_is_by_first(worker, text("next", "pem", "ca")));
    assert_false(lh_certificate_is_by_first(worker, ""));
    assert_false(lh_certificate_is_by_first("", text("ca", "pem", NULL)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_life_is_read),
        cmocka_unit_test(it_is_renewed_at_two_thirds_of_its_life),
        cmocka_unit_test(only_ones_own_will_do),
        cmocka_unit_test(nobody_elses_will_do),
        cmocka_unit_test(the_first_ca_is_the_one_that_signs),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
