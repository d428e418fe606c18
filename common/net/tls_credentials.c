/* One SSL_CTX at a time, exchanged under a lock; OpenSSL counts who still uses the one before. */
#include "common/net/tls_credentials.h"

#include "common/base/private_file.h"
#include "common/net/tls_reason.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

/* A PEM of RSA 16384 has 12 KiB. */
#define KEY_FILE_BYTES_MAX (32u << 10)

struct lh_tls_credentials {
    lh_tls_options files;
    pthread_mutex_t mutex;
    SSL_CTX *current;
};

/* ---- What every connection keeps to ---- */

static const unsigned char alpn[] = {2, 'h', '2'};

static int on_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                          const unsigned char *in, unsigned in_length, void *context) {
    (void)ssl;
    (void)context;
    unsigned char *selected;
    if (SSL_select_next_proto(&selected, out_length, alpn, sizeof alpn, in, in_length) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = selected;
    return SSL_TLSEXT_ERR_OK;
}

/* In either role: what concerns the other one is not looked at. */
static bool set_policy(SSL_CTX *ssl) {
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_alpn_select_cb(ssl, on_select_alpn, NULL);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(ssl, 0) == 1 &&
           SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn) == 0;
}

/* ---- Files ---- */

static lh_status file_failure(const char *what, const char *file, lh_error *error) {
    /* The oldest entry names the cause (no such file), the youngest only the consequence. */
    return lh_fail(error, LH_ERR_INVALID, "TLS %s file \"%.150s\": %s", what, file,
                   lh_tls_reason(ERR_peek_error()));
}

static lh_status key_failure(const lh_tls_options *files, lh_error *error) {
    unsigned long code = ERR_peek_error();
    if (ERR_GET_LIB(code) != ERR_LIB_X509 || ERR_GET_REASON(code) != X509_R_KEY_VALUES_MISMATCH)
        return file_failure("key", files->key_file, error);
    return lh_fail(error, LH_ERR_INVALID,
                   "TLS key file \"%.100s\" does not belong to the certificate \"%.100s\"",
                   files->key_file, files->certificate_file);
}

/* The owner is asked of the file that is read, so not by its name. */
static lh_status load_key(SSL_CTX *ssl, const lh_tls_options *files, lh_error *error) {
    char text[KEY_FILE_BYTES_MAX];
    size_t length;
    lh_error cause;
    if (lh_private_file_read(files->key_file, text, sizeof text, &length, &cause) != LH_OK)
        return lh_fail(error, LH_ERR_INVALID, "TLS key file: %.290s", cause.message);
    BIO *bio = BIO_new_mem_buf(text, (int)length);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    bool is_taken = key && SSL_CTX_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    explicit_bzero(text, sizeof text);
    return is_taken ? LH_OK : key_failure(files, error);
}

static lh_status load_files(SSL_CTX *ssl, const lh_tls_options *files, lh_error *error) {
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate_file) != 1)
        return file_failure("certificate", files->certificate_file, error);
    lh_status status = load_key(ssl, files, error);
    if (status == LH_OK && SSL_CTX_load_verify_locations(ssl, files->ca_file, NULL) != 1)
        return file_failure("CA", files->ca_file, error);
    return status;
}

static lh_status read_files(const lh_tls_options *files, SSL_CTX **read, lh_error *error) {
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    lh_status status = ssl && set_policy(ssl) ? load_files(ssl, files, error)
                                              : lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    if (status == LH_OK)
        *read = ssl;
    else
        SSL_CTX_free(ssl);
    ERR_clear_error();
    return status;
}

/* ---- Credentials ---- */

lh_status lh_tls_credentials_create(const lh_tls_options *options, lh_tls_credentials **out,
                                    lh_error *error) {
    if (!options->certificate_file || !options->key_file || !options->ca_file)
        return lh_fail(error, LH_ERR_INVALID, "TLS needs three files: certificate, key and CA");
    lh_tls_credentials *credentials = calloc(1, sizeof *credentials);
    if (!credentials)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    credentials->files = *options;
    lh_status status = read_files(options, &credentials->current, error);
    if (status == LH_OK && pthread_mutex_init(&credentials->mutex, NULL)) {
        SSL_CTX_free(credentials->current);
        status = lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    if (status == LH_OK)
        *out = credentials;
    else
        free(credentials);
    return status;
}

void lh_tls_credentials_destroy(lh_tls_credentials *credentials) {
    if (!credentials)
        return;
    pthread_mutex_destroy(&credentials->mutex);
    SSL_CTX_free(credentials->current);
    free(credentials);
}

lh_status lh_tls_credentials_reload(lh_tls_credentials *credentials, lh_error *error) {
    SSL_CTX *read;
    lh_status status = read_files(&credentials->files, &read, error);
    if (status != LH_OK)
        return status;
    pthread_mutex_lock(&credentials->mutex);
    SSL_CTX *before = credentials->current;
    credentials->current = read;
    pthread_mutex_unlock(&credentials->mutex);
    SSL_CTX_free(before);
    return LH_OK;
}

SSL_CTX *lh_tls_credentials_acquire(lh_tls_credentials *credentials) {
    pthread_mutex_lock(&credentials->mutex);
    SSL_CTX *current = credentials->current;
    SSL_CTX_up_ref(current);
    pthread_mutex_unlock(&credentials->mutex);
    return current;
}

/* An X.509 serial number has 20 bytes at most. */
static void describe_serial(X509 *certificate, char *text, size_t bytes) {
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    const unsigned char *digits = ASN1_STRING_get0_data(serial);
    int length = ASN1_STRING_length(serial);
    size_t used = 0;
    for (int i = 0; i < length && used + 3 <= bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%02X", digits[i]);
}

void lh_tls_credentials_describe(lh_tls_credentials *credentials,
                                 char text[LH_TLS_DESCRIPTION_BYTES]) {
    SSL_CTX *current = lh_tls_credentials_acquire(credentials);
    X509 *certificate = SSL_CTX_get0_certificate(current);
    char serial[64] = "", expires[32] = "?";
    struct tm time;
    describe_serial(certificate, serial, sizeof serial);
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1)
        strftime(expires, sizeof expires, "%Y-%m-%dT%H:%M:%SZ", &time);
    snprintf(text, LH_TLS_DESCRIPTION_BYTES, "serial=%s expires=%s", serial, expires);
    SSL_CTX_free(current);
}
