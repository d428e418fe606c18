/* The serial number of a certificate, as text. Thread: any. */
#pragma once

struct x509_st;

/* Upper-case hex digits, as OpenSSL prints them, and the end. */
#define LH_TLS_SERIAL_BYTES 41

typedef char lh_tls_serial[LH_TLS_SERIAL_BYTES];

/* "": it has more than the 20 bytes that an X.509 serial number may have (RFC 5280, 4.1.2.2). */
void lh_tls_serial_of(const struct x509_st *certificate, lh_tls_serial text);
