/* A list among the data that an SSL_CTX keeps for its user. */
#include "common/net/tls_admission.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct admission {
    size_t count;
    lh_tls_serial serials[];
} admission;

static int slot = -1;
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;

static void free_list(void *parent, void *list, CRYPTO_EX_DATA *data, int index, long argument,
                      void *pointer) {
    (void)parent;
    (void)data;
    (void)index;
    (void)argument;
    (void)pointer;
    free(list);
}

static void open_slot(void) {
    slot = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_list);
}

bool lh_tls_admission_attach(SSL_CTX *context, const lh_tls_serial *serials, size_t count) {
    pthread_once(&slot_once, open_slot);
    admission *list = malloc(sizeof *list + count * sizeof *serials);
    if (!list)
        return false;
    list->count = count;
    if (count)
        memcpy(list->serials, serials, count * sizeof *serials);
    if (slot >= 0 && SSL_CTX_set_ex_data(context, slot, list) == 1)
        return true;
    free(list);
    return false;
}

static const admission *list_of(const SSL_CTX *context) {
    pthread_once(&slot_once, open_slot);
    return slot >= 0 ? SSL_CTX_get_ex_data(context, slot) : NULL;
}

static bool has(const admission *list, const X509 *certificate) {
    lh_tls_serial serial;
    lh_tls_serial_of(certificate, serial);
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->serials[i], serial) == 0)
            return true;
    return false;
}

bool lh_tls_admission_has(const SSL_CTX *context, const X509 *certificate) {
    const admission *list = list_of(context);
    return !list || has(list, certificate);
}

bool lh_tls_admission_lists(const SSL_CTX *context, const X509 *certificate) {
    const admission *list = list_of(context);
    return list && has(list, certificate);
}
