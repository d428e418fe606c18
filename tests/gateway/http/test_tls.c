/* Files that are a certificate and its key, and those that are not; handshakes are tested over the
 * whole program. */
#include "gateway/http/tls.h"

#include "gateway/http/tls_certificate.h"
#include "tests/support/certificates.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static authority ca;

static int open_authority(void **state) {
    (void)state;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "ca", NULL, 10);
    authority_issue(&ca, "one", "ca", "one", "DNS:localhost", 10);
    authority_issue(&ca, "two", "ca", "two", "DNS:localhost", 10);
    return 0;
}

static int close_authority(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

static lh_tls_options files_of(const char *name) {
    return authority_options(&ca, name, "ca");
}

/* The number of certificates that a handshake is shown; 0: it fails. */
static unsigned shown(void) {
    gnutls_pcert_st *chain;
    gnutls_ocsp_data_st *ocsp;
    gnutls_privkey_t key;
    unsigned count, ocsp_count, flags;
    if (lh_http_tls_show(NULL, NULL, &chain, &count, &ocsp, &ocsp_count, &key, &flags))
        return 0;
    assert_int_equal(flags, GNUTLS_CERT_RETR_DEINIT_ALL);
    for (unsigned i = 0; i < count; i++)
        gnutls_pcert_deinit(&chain[i]);
    gnutls_free(chain);
    gnutls_privkey_deinit(key);
    return count;
}

static void a_pair_is_shown(void **state) {
    (void)state;
    lh_tls_options one = files_of("one");
    lh_http_tls *tls;
    assert_int_equal(shown(), 0);
    assert_int_equal(lh_http_tls_create(one.certificate_file, one.key_file, &tls, NULL), LH_OK);
    assert_int_equal(shown(), 1);
    assert_int_equal(lh_http_tls_reload(tls, NULL), LH_OK);
    assert_int_equal(shown(), 1);
    assert_int_equal(truncate(one.key_file, 10), 0);
    lh_error error;
    assert_int_equal(lh_http_tls_reload(tls, &error), LH_ERR_INVALID);
    assert_int_equal(shown(), 1); /* that of before */
    lh_http_tls_destroy(tls);
    assert_int_equal(shown(), 0);
}

static void what_is_no_pair_is_refused(void **state) {
    (void)state;
    lh_tls_options two = files_of("two"), other = files_of("ca");
    lh_http_tls *tls;
    lh_error error;
    assert_int_equal(lh_http_tls_create(two.certificate_file, other.key_file, &tls, &error),
                     LH_ERR_INVALID);
    assert_int_equal(lh_http_tls_create(two.key_file, two.key_file, &tls, &error), LH_ERR_INVALID);
    assert_int_equal(lh_http_tls_create("/nowhere", two.key_file, &tls, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "/nowhere"));
    assert_int_equal(lh_http_tls_create(two.certificate_file, "/nowhere", &tls, &error),
                     LH_ERR_INVALID);
    assert_int_equal(lh_http_tls_create("/dev/zero", two.key_file, &tls, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "too long"));
}

static void memory_may_run_out(void **state) {
    (void)state;
    lh_tls_options two = files_of("two");
    lh_status status = LH_ERR_NO_MEMORY;
    for (size_t n = 1; status; n++) {
        lh_http_tls *tls;
        lh_error error;
        failing_malloc_arm(n);
        status = lh_http_tls_create(two.certificate_file, two.key_file, &tls, &error);
        bool has_failed = failing_malloc_disarm();
        assert_true(status == LH_OK || has_failed);
        if (status == LH_OK)
            lh_http_tls_destroy(tls);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_shown),
        cmocka_unit_test(what_is_no_pair_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, open_authority, close_authority);
}
