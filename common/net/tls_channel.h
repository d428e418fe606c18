/* TLS 1.3 between two memory buffers, over OpenSSL: sealed bytes in, plain bytes out, and back; no
 * sockets.
 *
 * Both sides show a certificate that the CA has signed and that stands for somebody of the fleet
 * (tls_identity.h); a client also checks that this is whom it expects. ALPN must agree on "h2", or
 * where somebody comes to join (lh_tls_context_enrol, tls_pin.h) on LH_TLS_ALPN_JOIN. No tickets,
 * no resumption, no early data: connections live long.
 *
 * Thread: a context may be shared; a channel belongs to its owner's thread. */
#pragma once

#include "common/base/status.h"
#include "common/net/tls_credentials.h"
#include "common/net/tls_identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lh_tls_role { LH_TLS_SERVER, LH_TLS_CLIENT } lh_tls_role;

typedef struct lh_tls_context lh_tls_context;
typedef struct lh_tls_channel lh_tls_channel;

/* Where the options have no credentials, it reads the three files, once: statuses of
 * lh_tls_credentials_create. Otherwise each channel begins with what the credentials hold by then.
 * LH_ERR_INVALID: a client expects nobody; LH_ERR_NO_MEMORY. */
lh_status lh_tls_context_create(lh_tls_role role, const lh_tls_options *options,
                                lh_tls_context **context, lh_error *error);
void lh_tls_context_destroy(lh_tls_context *context);
/* Server: from now on it also takes those who have no certificate yet and say so by ALPN
 * LH_TLS_ALPN_JOIN (lh_tls_channel_is_enrolling). */
void lh_tls_context_enrol(lh_tls_context *context);

/* host: client: the name or IP address that it connects to, for whoever forwards by it (SNI). */
lh_status lh_tls_channel_create(lh_tls_context *context, const char *host, lh_tls_channel **channel,
                                lh_error *error);
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

/* Who the peer is, once the channel is open; valid as long as that. */
const lh_tls_identity *lh_tls_channel_peer_identity(const lh_tls_channel *channel);
/* Server, once the channel is open: the peer has shown no certificate, since it comes to get one;
 * it may ask for that and nothing else. */
bool lh_tls_channel_is_enrolling(const lh_tls_channel *channel);
/* Whether the credentials of the context would still accept the peer's certificate, which may have
 * been revoked since. One that has merely come to its end is no reason to end a connection that was
 * opened with it. */
bool lh_tls_channel_is_admitted(const lh_tls_channel *channel, const lh_tls_context *context);
