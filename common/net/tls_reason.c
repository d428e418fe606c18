/* A table of those that an operator meets. */
#include "common/net/tls_reason.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

static const struct {
    int reason;
    const char *text;
} reasons[] = {
    {SSL_R_WRONG_VERSION_NUMBER, "the peer does not speak TLS"},
    {SSL_R_HTTP_REQUEST, "the peer speaks plain HTTP, not TLS"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "the peer offers no TLS 1.3"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the peer takes no TLS 1.3"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the peer showed no certificate"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "the peer offers TLS but not HTTP/2 (ALPN h2)"},
    {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "the peer takes TLS but not HTTP/2 (ALPN h2)"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "the peer wants a certificate of ours and got none"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA,
     "the peer does not accept our certificate: not signed by its CA"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
     "the peer does not accept our certificate: it has expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
     "the peer does not accept our certificate: it was revoked"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
     "the peer does not accept our certificate: it stands for somebody else"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "the peer does not accept our certificate"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
     "the peer does not accept our certificate: wrong kind or use"},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
     "the peer does not accept our certificate: its signature fails"},
};

const char *lh_tls_reason(unsigned long code) {
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (ERR_GET_REASON(code) == reasons[i].reason && ERR_GET_LIB(code) == ERR_LIB_SSL)
            return reasons[i].text;
    if (ERR_SYSTEM_ERROR(code))
        return strerror(ERR_GET_REASON(code)); /* a file that is not there */
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    return text ? text : "unknown TLS error";
}
