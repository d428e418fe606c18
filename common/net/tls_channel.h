/* TLS 1.3 between two memory buffers, over OpenSSL: sealed bytes in, plain bytes out, and back; no
 * sockets.
 *
 * Both sides show a certificate that the CA has signed; the client also checks the server's name.
 * ALPN must agree on "h2". No tickets, no resumption, no early data: connections live long.
 *
 * Thread: a context may be shared; a channel belongs to its owner's thread. */
#pragma once

#include "common/base/status.h"
#include "common/net/tls_credentials.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lh_tls_role { LH_TLS_SERVER, LH_TLS_CLIENT } lh_tls_role;

typedef struct lh_tls_context lh_tls_context;
typedef struct lh_tls_channel lh_tls_channel;

/* Where the options have no credentials, it reads the three files, once: statuses of
 * lh_tls_credentials_create. Otherwise each channel begins with what the credentials hold by then;
 * LH_ERR_NO_MEMORY. */
lh_status lh_tls_context_create(lh_tls_role role, const lh_tls_options *options,
                                lh_tls_context **context, lh_error *error);
void lh_tls_context_destroy(lh_tls_context *context);

/* peer_name: client: the name or IP address that the server's certificate must bear. */
lh_status lh_tls_channel_create(lh_tls_context *context, const char *peer_name,
                                lh_tls_channel **channel, lh_error *error);
void lh_tls_channel_destroy(lh_tls_channel *channel);

/* Sealed bytes from the peer; all are taken. LH_ERR_PROTOCOL with the reason, LH_ERR_NO_MEMORY: the
 * channel is dead, what it has still to say (an alert) can be taken. */
lh_status lh_tls_channel_receive(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                                 lh_error *error);
/* The handshake is done and the peer is who it should be. */
bool lh_tls_channel_is_open(const lh_tls_channel *channel);
/* Plain bytes from the peer, up to `capacity`. *length 0: none now. LH_ERR_CLOSED: the peer closed
 * its side. */
lh_status lh_tls_channel_read(lh_tls_channel *channel, uint8_t *buffer, size_t capacity,
                              size_t *length, lh_error *error);

/* Seals plain bytes for the peer; only once it is open. */
lh_status lh_tls_channel_write(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                               lh_error *error);
/* The alert that ends the stream of plain bytes. */
void lh_tls_channel_shut_down(lh_tls_channel *channel);
/* Moves sealed bytes that are to be sent into the buffer; how many. Also after an error: the alert.
 */
size_t lh_tls_channel_take(lh_tls_channel *channel, uint8_t *buffer, size_t capacity);

/* Subject's common name of the peer's certificate, "" when it has none; valid as long as the
 * channel. */
const char *lh_tls_channel_peer_name(const lh_tls_channel *channel);
