/* Names of a subjectAltName: the two that are ours, and all that is nearly so. */
#include "common/net/tls_identity.h"

#include "tests/support/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#undef lh_error /* openssl/lhash.h */

#define LONGEST "x23456789012345678901234567890123456789012345678901234567890123"

static lh_tls_identity parse(const char *uri) {
    return lh_tls_identity_parse(uri, strlen(uri));
}

static void a_worker_has_a_name_and_a_site(void **state) {
    (void)state;
    static const struct {
        const char *uri, *name, *site;
    } rows[] = {
        {"longhaul://worker/attic?site=home", "attic", "home"},
        {"longhaul://worker/A.b_c-9?site=9", "A.b_c-9", "9"},
        {"longhaul://worker/gateway?site=gateway", "gateway", "gateway"},
        {"longhaul://worker/" LONGEST "?site=" LONGEST, LONGEST, LONGEST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lh_tls_identity identity = parse(rows[i].uri);
        assert_int_equal(identity.kind, LH_TLS_WORKER);
        assert_string_equal(identity.name, rows[i].name);
        assert_string_equal(identity.site, rows[i].site);
        assert_true(lh_tls_identity_is_worker(&identity, rows[i].name));
        assert_false(lh_tls_identity_is_worker(&identity, "other"));
        char uri[LH_TLS_URI_BYTES];
        lh_tls_identity_render(&identity, uri);
        assert_string_equal(uri, rows[i].uri);
    }
}

static void the_gateway_has_none(void **state) {
    (void)state;
    lh_tls_identity identity = parse("longhaul://gateway");
    assert_int_equal(identity.kind, LH_TLS_GATEWAY);
    assert_string_equal(identity.name, "");
    assert_false(lh_tls_identity_is_worker(&identity, ""));
    char uri[LH_TLS_URI_BYTES];
    lh_tls_identity_render(&identity, uri);
    assert_string_equal(uri, "longhaul://gateway");
}

static void what_is_nearly_a_name_is_none(void **state) {
    (void)state;
    static const char *const uris[] = {
        "",
        "longhaul:",
        "longhaul://",
        "longhaul://gateways",
        "longhaul://gateway/",
        "longhaul://gateway?site=home",
        "longhaul://gateway#",
        "longhaul:///gateway",
        "Longhaul://gateway",
        "longhaul://Gateway",
        " longhaul://gateway",
        "longhaul://gateway ",
        "https://gateway",
        "longhaul://worker",
        "longhaul://worker/",
        "longhaul://worker/attic",
        "longhaul://worker/attic/",
        "longhaul://worker/attic?",
        "longhaul://worker/attic?site",
        "longhaul://worker/attic?site=",
        "longhaul://worker/?site=home",
        "longhaul://worker/attic?Site=home",
        "longhaul://WORKER/attic?site=home",
        "LONGHAUL://worker/attic?site=home",
        "longhaul://worker/attic?site=home&site=office",
        "longhaul://worker/attic?site=home&more=1",
        "longhaul://worker/attic?site=home#x",
        "longhaul://worker/attic?more=1&site=home",
        "longhaul://worker/attic?site=home?site=office",
        "longhaul://worker/att%69c?site=home",
        "longhaul://worker/attic?site=h%6fme",
        "longhaul://worker/attic%00?site=home",
        "longhaul://worker/at tic?site=home",
        "longhaul://worker/at/tic?site=home",
        "longhaul://worker/attic?site=h/me",
        "longhaul://worker/../gateway?site=home",
        "longhaul://worker/*?site=home",
        "longhaul://worker/attic?site=*",
        "longhaul://worker/\xc3\xa4?site=home",
        "longhaul://user@worker/attic?site=home",
        "longhaul://worker:1/attic?site=home",
        "longhaul://worker/" LONGEST "x?site=home",
        "longhaul://worker/attic?site=" LONGEST "x",
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        lh_tls_identity identity = parse(uris[i]);
        if (identity.kind != LH_TLS_STRANGER || identity.name[0] || identity.site[0])
            fail_msg("\"%s\" was accepted", uris[i]);
    }
}

/* A NUL, which other programs take for the end. */
static void a_text_counts_as_a_whole(void **state) {
    (void)state;
    static const char worker[] = "longhaul://worker/attic?site=home\0.example",
                      name[] = "longhaul://worker/attic\0x?site=home",
                      gateway[] = "longhaul://gateway\0";
    assert_int_equal(lh_tls_identity_parse(worker, sizeof worker - 1).kind, LH_TLS_STRANGER);
    assert_int_equal(lh_tls_identity_parse(name, sizeof name - 1).kind, LH_TLS_STRANGER);
    assert_int_equal(lh_tls_identity_parse(gateway, sizeof gateway - 1).kind, LH_TLS_STRANGER);
    for (size_t length = 0; length < strlen(worker); length++)
        assert_int_equal(lh_tls_identity_parse(worker, length).kind,
                         length < strlen("longhaul://worker/attic?site=h") ? LH_TLS_STRANGER
                                                                           : LH_TLS_WORKER);
}

/* ---- Certificates ---- */

static lh_tls_identity identity_with(const char *names) {
    authority ca;
    char path[160];
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "CA", NULL, 30);
    authority_issue(&ca, "leaf", "ca", "longhaul://gateway", names, 30);
    snprintf(path, sizeof path, "%s/leaf.pem", ca.folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    X509 *leaf = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    lh_tls_identity identity = lh_tls_identity_of(leaf);
    X509_free(leaf);
    authority_close(&ca);
    return identity;
}

static void a_certificate_has_one_name_of_the_fleet(void **state) {
    (void)state;
#define ATTIC "URI:longhaul://worker/attic?site=home"
    static const struct {
        const char *names;
        lh_tls_identity_kind kind;
    } rows[] = {
        {ATTIC, LH_TLS_WORKER},
        {"URI:longhaul://gateway", LH_TLS_GATEWAY},
        {"DNS:attic,IP:127.0.0.1," ATTIC ",URI:spiffe://example.org/x,email:a@b.example",
         LH_TLS_WORKER},
        {NULL, LH_TLS_STRANGER},
        {"DNS:gateway,IP:127.0.0.1", LH_TLS_STRANGER},
        {"DNS:longhaul://gateway", LH_TLS_STRANGER},
        {"email:longhaul://gateway", LH_TLS_STRANGER},
        {"URI:spiffe://example.org/gateway", LH_TLS_STRANGER},
        {"URI:Longhaul://gateway", LH_TLS_STRANGER},
        {ATTIC "," ATTIC, LH_TLS_STRANGER},
        {ATTIC ",URI:longhaul://gateway", LH_TLS_STRANGER},
        {ATTIC ",URI:LONGHAUL://gateway", LH_TLS_STRANGER},
        {ATTIC ",URI:longhaul://worker/cellar", LH_TLS_STRANGER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (identity_with(rows[i].names).kind != rows[i].kind)
            fail_msg("case %zu: %s", i, rows[i].names);
    assert_int_equal(lh_tls_identity_of(NULL).kind, LH_TLS_STRANGER);
}

static void add_uri(X509 *certificate, const char *uri, int length) {
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, uri, length);
    GENERAL_NAME_set0_value(name, GEN_URI, text);
    sk_GENERAL_NAME_push(names, name);
    assert_int_equal(
        X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND), 1);
    GENERAL_NAMES_free(names);
}

static void a_nul_in_a_certificate_hides_nothing(void **state) {
    (void)state;
    static const char hiding[] = "longhaul://gateway\0.example";
    X509 *certificate = X509_new();
    add_uri(certificate, hiding, sizeof hiding - 1);
    assert_int_equal(lh_tls_identity_of(certificate).kind, LH_TLS_STRANGER);
    X509_free(certificate);
}

static void two_extensions_are_none(void **state) {
    (void)state;
    X509 *certificate = X509_new();
    add_uri(certificate, "longhaul://gateway", -1);
    assert_int_equal(lh_tls_identity_of(certificate).kind, LH_TLS_GATEWAY);
    add_uri(certificate, "longhaul://gateway", -1);
    assert_int_equal(lh_tls_identity_of(certificate).kind, LH_TLS_STRANGER);
    X509_free(certificate);
}

/* ---- Whom is meant ---- */

static void who_answers_is_who_was_meant(void **state) {
    (void)state;
    const lh_tls_identity none = {.kind = LH_TLS_NONE}, stranger = {.kind = LH_TLS_STRANGER},
                          gateway = lh_tls_identity_named(""),
                          attic = parse("longhaul://worker/attic?site=home"),
                          cellar = parse("longhaul://worker/cellar?site=home"),
                          meant = lh_tls_identity_named("attic");
    const struct {
        const lh_tls_identity *met, *expected;
        bool meets;
    } rows[] = {
        {&attic, &meant, true},     {&cellar, &meant, false}, {&gateway, &meant, false},
        {&stranger, &meant, false}, {&none, &meant, false},   {&gateway, &gateway, true},
        {&attic, &gateway, false},  {&none, &gateway, false}, {&stranger, &gateway, false},
        {&attic, &none, true},      {&gateway, &none, true},  {&stranger, &none, false},
        {&none, &none, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (lh_tls_identity_meets(rows[i].met, rows[i].expected) != rows[i].meets)
            fail_msg("case %zu", i);
}

static void they_are_described(void **state) {
    (void)state;
    char text[LH_TLS_IDENTITY_TEXT_BYTES];
    lh_tls_identity identity = parse("longhaul://worker/" LONGEST "?site=" LONGEST);
    lh_tls_identity_describe(&identity, text);
    assert_string_equal(text, "worker " LONGEST " of site " LONGEST);
    identity = lh_tls_identity_named("attic");
    lh_tls_identity_describe(&identity, text);
    assert_string_equal(text, "worker attic");
    identity = lh_tls_identity_named("");
    lh_tls_identity_describe(&identity, text);
    assert_string_equal(text, "the gateway");
    identity.kind = LH_TLS_STRANGER;
    lh_tls_identity_describe(&identity, text);
    assert_string_equal(text, "a stranger to the fleet");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_has_a_name_and_a_site),
        cmocka_unit_test(the_gateway_has_none),
        cmocka_unit_test(what_is_nearly_a_name_is_none),
        cmocka_unit_test(a_text_counts_as_a_whole),
        cmocka_unit_test(a_certificate_has_one_name_of_the_fleet),
        cmocka_unit_test(a_nul_in_a_certificate_hides_nothing),
        cmocka_unit_test(two_extensions_are_none),
        cmocka_unit_test(who_answers_is_who_was_meant),
        cmocka_unit_test(they_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
