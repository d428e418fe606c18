/* Keys on P-256, certificates by OpenSSL. */
#include "tests/support/certificates.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY_S = 86400 };

void authority_open(authority *a) {
    *a = (authority){.folder = "/tmp/longhaul-test-XXXXXX"};
    char *made = mkdtemp(a->folder);
    assert(made);
}

void authority_close(authority *a) {
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", a->folder);
    int status = system(command);
    assert(status == 0);
}

static FILE *open_file(const authority *a, const char *name, const char *suffix, const char *mode) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s.%s", a->folder, name, suffix);
    mode_t before = umask(077); /* keys are written here, too */
    FILE *file = fopen(path, mode);
    umask(before);
    assert(file);
    return file;
}

static X509 *read_certificate(const authority *a, const char *name) {
    FILE *file = open_file(a, name, "pem", "r");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert(certificate);
    return certificate;
}

static EVP_PKEY *read_key(const authority *a, const char *name) {
    FILE *file = open_file(a, name, "key", "r");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    assert(key);
    return key;
}

static void add_extension(X509 *certificate, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

void authority_issue(authority *a, const char *name, const char *issuer, const char *common_name,
                     const char *names, int days) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509 *by = issuer ? read_certificate(a, issuer) : certificate;
    EVP_PKEY *by_key = issuer ? read_key(a, issuer) : key;
    X509_NAME *subject = X509_get_subject_name(certificate);

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++a->serial);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1,
                               -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(by));
    X509_gmtime_adj(X509_getm_notBefore(certificate), -10 * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate), (long)days * DAY_S);
    X509_set_pubkey(certificate, key);
    add_extension(certificate, by, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
    if (names)
        add_extension(certificate, by, NID_subject_alt_name, names);
    int size = X509_sign(certificate, by_key, EVP_sha256());
    assert(size > 0);

    FILE *file = open_file(a, name, "pem", "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    file = open_file(a, name, "key", "w");
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    if (issuer) {
        X509_free(by);
        EVP_PKEY_free(by_key);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
}

lh_tls_options authority_options(const authority *a, const char *name, const char *ca) {
    static char paths[8][3][160];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn][0], sizeof paths[0][0], "%s/%s.pem", a->folder, name);
    snprintf(paths[turn][1], sizeof paths[0][0], "%s/%s.key", a->folder, name);
    snprintf(paths[turn][2], sizeof paths[0][0], "%s/%s.pem", a->folder, ca);
    return (lh_tls_options){
        .certificate_file = paths[turn][0], .key_file = paths[turn][1], .ca_file = paths[turn][2]};
}
