/* By OpenSSL. */
#include "tests/gateway/support/certificate_requests.h"

#include <assert.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

EVP_PKEY *make_key(const char *curve) {
    EVP_PKEY *key = EVP_EC_gen(curve);
    assert(key);
    return key;
}

static void ask_for_names(X509_REQ *request, const char *names) {
    X509V3_CTX context;
    STACK_OF(X509_EXTENSION) *extensions = sk_X509_EXTENSION_new_null();
    X509V3_set_ctx(&context, NULL, NULL, request, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, names);
    assert(extension);
    sk_X509_EXTENSION_push(extensions, extension);
    extension = X509V3_EXT_conf_nid(NULL, &context, NID_basic_constraints, "critical,CA:TRUE");
    sk_X509_EXTENSION_push(extensions, extension);
    X509_REQ_add_extensions(request, extensions);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
}

char *make_request(EVP_PKEY *key, const char *common_name, const char *names) {
    X509_REQ *request = X509_REQ_new();
    char *bytes;
    X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN", MBSTRING_UTF8,
                               (const unsigned char *)common_name, -1, -1, 0);
    X509_REQ_set_pubkey(request, key);
    if (names)
        ask_for_names(request, names);
    int length = X509_REQ_sign(request, key, EVP_sha256());
    assert(length > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_REQ(bio, request);
    long written = BIO_get_mem_data(bio, &bytes);
    char *pem = strndup(bytes, (size_t)written);
    BIO_free(bio);
    X509_REQ_free(request);
    return pem;
}

char *make_new_request(void) {
    EVP_PKEY *key = make_key("P-256");
    char *pem = make_request(key, "anybody", NULL);
    EVP_PKEY_free(key);
    return pem;
}

X509 *read_certificate(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert(certificate);
    return certificate;
}

const char *names_of(X509 *certificate) {
    static char text[1024];
    int index = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
    BIO *bio = BIO_new(BIO_s_mem());
    X509V3_EXT_print(bio, X509_get_ext(certificate, index), 0, 0);
    int length = BIO_read(bio, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    BIO_free(bio);
    return text;
}

static X509_STORE *read_store(const char *trust, long long at_s) {
    X509_STORE *store = X509_STORE_new();
    BIO *bio = BIO_new_mem_buf(trust, -1);
    for (X509 *one; (one = PEM_read_bio_X509(bio, NULL, NULL, NULL)); X509_free(one))
        X509_STORE_add_cert(store, one);
    BIO_free(bio);
    X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store), (time_t)at_s);
    return store;
}

bool is_believed(X509 *certificate, const char *trust, long long at_s) {
    static const char *const purposes[] = {"ssl_server", "ssl_client"};
    bool is_good = true;
    X509_STORE *store = read_store(trust, at_s);
    for (int i = 0; i < 2; i++) {
        X509_STORE_CTX *context = X509_STORE_CTX_new();
        X509_STORE_CTX_init(context, store, certificate, NULL);
        X509_STORE_CTX_set_default(context, purposes[i]);
        is_good = is_good && X509_verify_cert(context) == 1;
        X509_STORE_CTX_free(context);
    }
    X509_STORE_free(store);
    return is_good;
}
