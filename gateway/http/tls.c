/* The texts of two files under a lock. Each handshake decodes them anew, a tenth of the time that
 * its signature takes, so that nobody has to count who still uses the ones before. */
#include "gateway/http/tls.h"

#include "common/base/private_file.h"
#include "gateway/http/tls_certificate.h"

#include <assert.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CERTIFICATE_FILE_BYTES_MAX (64u << 10)
#define KEY_FILE_BYTES_MAX         (32u << 10)
#define CHAIN_MAX                  16u

typedef struct pem_pair {
    gnutls_datum_t certificate, key; /* malloc'd */
} pem_pair;

struct lh_http_tls {
    const char *certificate_file, *key_file;
    pthread_mutex_t mutex; /* of what is in use */
    pem_pair current;
};

static _Atomic(lh_http_tls *) in_use;

/* ---- Files. ---- */

static void reset(pem_pair *pair) {
    if (pair->key.data)
        explicit_bzero(pair->key.data, pair->key.size);
    free(pair->certificate.data);
    free(pair->key.data);
    *pair = (pem_pair){{NULL, 0}, {NULL, 0}};
}

static lh_status refuse(const char *what, const char *file, const char *why, lh_error *error) {
    return lh_fail(error, LH_ERR_INVALID, "TLS %s file \"%.150s\": %s", what, file, why);
}

static lh_status read_certificate(const char *path, gnutls_datum_t *out, lh_error *error) {
    FILE *file = fopen(path, "re");
    if (!file)
        return refuse("certificate", path, "cannot be opened", error);
    out->data = malloc(CERTIFICATE_FILE_BYTES_MAX + 1);
    size_t length = out->data ? fread(out->data, 1, CERTIFICATE_FILE_BYTES_MAX + 1, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    if (!out->data)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate");
    if (failed || length > CERTIFICATE_FILE_BYTES_MAX)
        return refuse("certificate", path, failed ? "cannot be read" : "is too long", error);
    out->size = (unsigned)length;
    return LH_OK;
}

static lh_status read_key(const char *path, gnutls_datum_t *out, lh_error *error) {
    lh_error cause;
    size_t length;
    out->data = malloc(KEY_FILE_BYTES_MAX);
    if (!out->data)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a key");
    if (lh_private_file_read(path, (char *)out->data, KEY_FILE_BYTES_MAX, &length, &cause))
        return refuse("key", path, cause.message, error);
    out->size = (unsigned)length;
    return LH_OK;
}

/* Whether both can be decoded, and belong together. */
static lh_status check(const lh_http_tls *tls, const pem_pair *pair, lh_error *error) {
    gnutls_certificate_credentials_t credentials;
    if (gnutls_certificate_allocate_credentials(&credentials) < 0)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate");
    int code = gnutls_certificate_set_x509_key_mem2(credentials, &pair->certificate, &pair->key,
                                                    GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_certificate_free_credentials(credentials);
    if (code == GNUTLS_E_MEMORY_ERROR)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate");
    if (code >= 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "TLS certificate \"%.120s\" with key \"%.120s\": %s",
                   tls->certificate_file, tls->key_file, gnutls_strerror(code));
}

static lh_status load(const lh_http_tls *tls, pem_pair *pair, lh_error *error) {
    lh_status status = read_certificate(tls->certificate_file, &pair->certificate, error);
    if (!status)
        status = read_key(tls->key_file, &pair->key, error);
    if (!status)
        status = check(tls, pair, error);
    if (status)
        reset(pair);
    return status;
}

lh_status lh_http_tls_create(const char *certificate_file, const char *key_file, lh_http_tls **out,
                             lh_error *error) {
    lh_http_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate");
    tls->certificate_file = certificate_file;
    tls->key_file = key_file;
    lh_status status = load(tls, &tls->current, error);
    if (status) {
        free(tls);
        return status;
    }
    pthread_mutex_init(&tls->mutex, NULL);
    assert(!atomic_load(&in_use));
    atomic_store(&in_use, tls);
    *out = tls;
    return LH_OK;
}

void lh_http_tls_destroy(lh_http_tls *tls) {
    if (!tls)
        return;
    atomic_store(&in_use, NULL);
    reset(&tls->current);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

lh_status lh_http_tls_reload(lh_http_tls *tls, lh_error *error) {
    pem_pair fresh = {{NULL, 0}, {NULL, 0}};
    lh_status status = load(tls, &fresh, error);
    if (status)
        return status;
    pthread_mutex_lock(&tls->mutex);
    pem_pair before = tls->current;
    tls->current = fresh;
    pthread_mutex_unlock(&tls->mutex);
    reset(&before);
    return LH_OK;
}

/* ---- Handshakes. ---- */

static void drop_chain(gnutls_pcert_st *chain, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        gnutls_pcert_deinit(&chain[i]);
    gnutls_free(chain);
}

static int decode(const pem_pair *pair, gnutls_pcert_st **chain, unsigned *count,
                  gnutls_privkey_t *key) {
    gnutls_pcert_st *certificates = gnutls_malloc(CHAIN_MAX * sizeof *certificates);
    gnutls_privkey_t own_key;
    *count = CHAIN_MAX;
    if (!certificates)
        return -1;
    if (gnutls_pcert_list_import_x509_raw(certificates, count, &pair->certificate,
                                          GNUTLS_X509_FMT_PEM, 0) < 0) {
        gnutls_free(certificates);
        return -1;
    }
    if (gnutls_privkey_init(&own_key) < 0) {
        drop_chain(certificates, *count);
        return -1;
    }
    if (gnutls_privkey_import_x509_raw(own_key, &pair->key, GNUTLS_X509_FMT_PEM, NULL, 0) < 0) {
        gnutls_privkey_deinit(own_key);
        drop_chain(certificates, *count);
        return -1;
    }
    *chain = certificates;
    *key = own_key;
    return 0;
}

int lh_http_tls_show(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                     gnutls_pcert_st **chain, unsigned *count, gnutls_ocsp_data_st **ocsp,
                     unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags) {
    (void)session;
    (void)info;
    lh_http_tls *tls = atomic_load(&in_use);
    *ocsp = NULL;
    *ocsp_count = 0;
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    if (!tls)
        return -1;
    pthread_mutex_lock(&tls->mutex);
    int code = decode(&tls->current, chain, count, key);
    pthread_mutex_unlock(&tls->mutex);
    return code;
}
