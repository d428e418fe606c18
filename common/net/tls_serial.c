/* Digits of an ASN.1 integer. */
#include "common/net/tls_serial.h"

#include <openssl/x509.h>
#include <stdio.h>

void lh_tls_serial_of(const X509 *certificate, lh_tls_serial text) {
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    const unsigned char *bytes = ASN1_STRING_get0_data(serial);
    int length = ASN1_STRING_length(serial);
    text[0] = '\0';
    if (length > (LH_TLS_SERIAL_BYTES - 1) / 2)
        return;
    for (int i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02X", bytes[i]);
}
