/* One SSL_CTX at a time, exchanged under a lock; OpenSSL counts who still uses the one before. */
#include "common/net/tls_credentials.h"

#include "common/base/private_file.h"
#include "common/net/tls_expectation.h"
#include "common/net/tls_reason.h"

#include <assert.h>
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
    pthread_mutex_t mutex; /* of what is in use */
    SSL_CTX *current;
    pthread_mutex_t reload_mutex; /* one at a time, and what follows */
    /* Of the certificates that are accepted; NULL: all that the CA has signed. */
    lh_tls_serial *serials;
    size_t serial_count;
};

/* ---- What every connection keeps to ---- */

static const unsigned char alpn[] = {2, 'h', '2'};
/* common/protocol/JOINING.md */
static const unsigned char enrolment_alpn[] = "\x0f" LH_TLS_ALPN_JOIN;

static bool has_selected(const unsigned char *wanted, size_t wanted_length,
                         const unsigned char **out, unsigned char *out_length,
                         const unsigned char *in, unsigned in_length) {
    unsigned char *selected;
    if (SSL_select_next_proto(&selected, out_length, wanted, (unsigned)wanted_length, in,
                              in_length) != OPENSSL_NPN_NEGOTIATED)
        return false;
    *out = selected;
    return true;
}

/* Comes before the server decides whether it asks for a certificate. With h2 it always does,
 * whatever else the client offers. */
static int on_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                          const unsigned char *in, unsigned in_length, void *context) {
    lh_tls_expectation *peer = SSL_get_app_data(ssl);
    (void)context;
    SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    peer->is_enrolling = false;
    if (has_selected(alpn, sizeof alpn, out, out_length, in, in_length))
        return SSL_TLSEXT_ERR_OK;
    if (!peer->may_enrol ||
        !has_selected(enrolment_alpn, sizeof enrolment_alpn - 1, out, out_length, in, in_length))
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
    peer->is_enrolling = true;
    return SSL_TLSEXT_ERR_OK;
}

/* A peer chooses one of them before it has shown a certificate: OpenSSL's other ones cost up to a
 * hundred times as much. */
#define GROUPS "X25519:P-256:P-384"

/* In either role: what concerns the other one is not looked at. */
static bool set_policy(SSL_CTX *ssl) {
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_alpn_select_cb(ssl, on_select_alpn, NULL);
    lh_tls_expectation_prepare_context(ssl);
    return SSL_CTX_set1_groups_list(ssl, GROUPS) == 1 &&
           SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
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

/* A program is what its certificate says: so it cannot be taken for another one's. */
static lh_status check_own(SSL_CTX *ssl, const lh_tls_options *files, lh_error *error) {
    lh_tls_identity identity = lh_tls_identity_of(SSL_CTX_get0_certificate(ssl));
    char text[LH_TLS_IDENTITY_TEXT_BYTES];
    if (files->own == LH_TLS_NONE || identity.kind == files->own)
        return LH_OK;
    lh_tls_identity_describe(&identity, text);
    return lh_fail(error, LH_ERR_INVALID,
                   "TLS certificate file \"%.100s\" is that of %s: the subjectAltName of a %s's "
                   "needs %s",
                   files->certificate_file,
                   identity.kind == LH_TLS_STRANGER ? "nobody of the fleet" : text,
                   files->own == LH_TLS_GATEWAY ? "gateway" : "worker",
                   files->own == LH_TLS_GATEWAY ? LH_TLS_GATEWAY_URI : LH_TLS_WORKER_URI);
}

static lh_status read_files(const lh_tls_options *files, SSL_CTX **read, lh_error *error) {
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    lh_status status = ssl && set_policy(ssl) ? load_files(ssl, files, error)
                                              : lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    if (status == LH_OK)
        status = check_own(ssl, files, error);
    if (status == LH_OK)
        *read = ssl;
    else
        SSL_CTX_free(ssl);
    ERR_clear_error();
    return status;
}

/* ---- Credentials ---- */

lh_tls_options lh_tls_options_for(const lh_tls_options *options, const char *worker) {
    lh_tls_options meant = *options;
    meant.expected = lh_tls_identity_named(worker);
    return meant;
}

static lh_tls_credentials *create(void) {
    lh_tls_credentials *credentials = calloc(1, sizeof *credentials);
    if (!credentials)
        return NULL;
    pthread_mutex_init(&credentials->mutex, NULL); /* that does not fail on Linux */
    pthread_mutex_init(&credentials->reload_mutex, NULL);
    return credentials;
}

lh_status lh_tls_credentials_create(const lh_tls_options *options, lh_tls_credentials **out,
                                    lh_error *error) {
    if (!options->certificate_file || !options->key_file || !options->ca_file)
        return lh_fail(error, LH_ERR_INVALID, "TLS needs three files: certificate, key and CA");
    lh_tls_credentials *credentials = create();
    if (!credentials)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    credentials->files = *options;
    lh_status status = read_files(options, &credentials->current, error);
    if (status == LH_OK)
        *out = credentials;
    else
        lh_tls_credentials_destroy(credentials);
    return status;
}

lh_status lh_tls_credentials_adopt(SSL_CTX *context, lh_tls_credentials **out, lh_error *error) {
    lh_tls_credentials *credentials = create();
    if (!credentials) {
        SSL_CTX_free(context);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    credentials->current = context;
    *out = credentials;
    return LH_OK;
}

void lh_tls_credentials_destroy(lh_tls_credentials *credentials) {
    if (!credentials)
        return;
    pthread_mutex_destroy(&credentials->mutex);
    pthread_mutex_destroy(&credentials->reload_mutex);
    SSL_CTX_free(credentials->current);
    free(credentials->serials);
    free(credentials);
}

/* What is said of this program elsewhere, in reports and assignments, stays true. */
static lh_status check_same(lh_tls_credentials *credentials, SSL_CTX *read, lh_error *error) {
    lh_tls_identity before = lh_tls_credentials_identity(credentials),
                    now = lh_tls_identity_of(SSL_CTX_get0_certificate(read));
    char was[LH_TLS_IDENTITY_TEXT_BYTES], is[LH_TLS_IDENTITY_TEXT_BYTES];
    if (credentials->files.own == LH_TLS_NONE ||
        (before.kind == now.kind && strcmp(before.name, now.name) == 0 &&
         strcmp(before.site, now.site) == 0))
        return LH_OK;
    lh_tls_identity_describe(&before, was);
    lh_tls_identity_describe(&now, is);
    return lh_fail(error, LH_ERR_INVALID,
                   "the certificate is that of %.120s, and this is %.120s: only a restart changes "
                   "who a program is",
                   is, was);
}

static void exchange(lh_tls_credentials *credentials, SSL_CTX *read) {
    pthread_mutex_lock(&credentials->mutex);
    SSL_CTX *before = credentials->current;
    credentials->current = read;
    pthread_mutex_unlock(&credentials->mutex);
    SSL_CTX_free(before);
}

static lh_status reload(lh_tls_credentials *credentials, const lh_tls_serial *serials, size_t count,
                        lh_error *error) {
    SSL_CTX *read;
    assert(credentials->files.certificate_file);
    lh_status status = read_files(&credentials->files, &read, error);
    if (status != LH_OK)
        return status;
    status = check_same(credentials, read, error);
    if (status == LH_OK && serials && !lh_tls_admission_attach(read, serials, count))
        status = lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    if (status == LH_OK)
        exchange(credentials, read);
    else
        SSL_CTX_free(read);
    return status;
}

lh_status lh_tls_credentials_reload(lh_tls_credentials *credentials, lh_error *error) {
    pthread_mutex_lock(&credentials->reload_mutex);
    lh_status status = reload(credentials, credentials->serials, credentials->serial_count, error);
    pthread_mutex_unlock(&credentials->reload_mutex);
    return status;
}

lh_status lh_tls_credentials_reload_for(lh_tls_credentials *credentials,
                                        const lh_tls_serial *serials, size_t count,
                                        lh_error *error) {
    lh_tls_serial *copy = calloc(count ? count : 1, sizeof *copy);
    if (!copy)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    memcpy(copy, serials, count * sizeof *copy);
    pthread_mutex_lock(&credentials->reload_mutex);
    lh_status status = reload(credentials, copy, count, error);
    if (status == LH_OK) {
        free(credentials->serials);
        credentials->serials = copy;
        credentials->serial_count = count;
    }
    pthread_mutex_unlock(&credentials->reload_mutex);
    if (status != LH_OK)
        free(copy);
    return status;
}

SSL_CTX *lh_tls_credentials_acquire(lh_tls_credentials *credentials) {
    pthread_mutex_lock(&credentials->mutex);
    SSL_CTX *current = credentials->current;
    SSL_CTX_up_ref(current);
    pthread_mutex_unlock(&credentials->mutex);
    return current;
}

lh_tls_identity lh_tls_credentials_identity(lh_tls_credentials *credentials) {
    SSL_CTX *current = lh_tls_credentials_acquire(credentials);
    lh_tls_identity identity = lh_tls_identity_of(SSL_CTX_get0_certificate(current));
    SSL_CTX_free(current);
    return identity;
}

/* Unix time; -1: it says none. */
static int64_t seconds_of(const ASN1_TIME *asn1) {
    struct tm time;
    return asn1 && ASN1_TIME_to_tm(asn1, &time) == 1 ? (int64_t)timegm(&time) : -1;
}

void lh_tls_credentials_note(lh_tls_credentials *credentials, lh_host_facts *facts) {
    SSL_CTX *current = lh_tls_credentials_acquire(credentials);
    X509 *certificate = SSL_CTX_get0_certificate(current);
    if (certificate) {
        lh_host_facts_set(facts, LH_HOST_CERTIFICATE_BEGINS_S,
                          seconds_of(X509_get0_notBefore(certificate)));
        lh_host_facts_set(facts, LH_HOST_CERTIFICATE_ENDS_S,
                          seconds_of(X509_get0_notAfter(certificate)));
    }
    SSL_CTX_free(current);
}

lh_tls_description lh_tls_credentials_describe(lh_tls_credentials *credentials) {
    lh_tls_description description = {0};
    SSL_CTX *current = lh_tls_credentials_acquire(credentials);
    X509 *certificate = SSL_CTX_get0_certificate(current);
    struct tm time;
    lh_tls_serial_of(certificate, description.serial);
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1)
        strftime(description.expires, sizeof description.expires, "%Y-%m-%dT%H:%M:%SZ", &time);
    SSL_CTX_free(current);
    return description;
}
