/* placeholder until wave 2 */
#include "common/tls_channel.h"
lh_status lh_tls_context_create(lh_tls_role role, const lh_tls_options *options, lh_tls_context **context,
                                lh_error *error) {
    (void)role;
    (void)options;
    (void)context;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "TLS is not built yet");
}
void lh_tls_context_destroy(lh_tls_context *context) {
    (void)context;
}
lh_status lh_tls_channel_create(lh_tls_context *context, const char *peer_name, lh_tls_channel **channel,
                                lh_error *error) {
    (void)context;
    (void)peer_name;
    (void)channel;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "TLS is not built yet");
}
void lh_tls_channel_destroy(lh_tls_channel *channel) {
    (void)channel;
}
lh_status lh_tls_channel_receive(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                                 lh_error *error) {
    (void)channel;
    (void)bytes;
    (void)length;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "TLS");
}
bool lh_tls_channel_is_open(const lh_tls_channel *channel) {
    (void)channel;
    return false;
}
lh_status lh_tls_channel_read(lh_tls_channel *channel, uint8_t *buffer, size_t capacity, size_t *length,
                              lh_error *error) {
    (void)channel;
    (void)buffer;
    (void)capacity;
    *length = 0;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "TLS");
}
lh_status lh_tls_channel_write(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                               lh_error *error) {
    (void)channel;
    (void)bytes;
    (void)length;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "TLS");
}
void lh_tls_channel_shut_down(lh_tls_channel *channel) {
    (void)channel;
}
void lh_tls_channel_pending(lh_tls_channel *channel, const uint8_t **bytes, size_t *length) {
    (void)channel;
    *bytes = 0;
    *length = 0;
}
void lh_tls_channel_sent(lh_tls_channel *channel, size_t length) {
    (void)channel;
    (void)length;
}
const char *lh_tls_channel_peer_name(const lh_tls_channel *channel) {
    (void)channel;
    return "";
}
