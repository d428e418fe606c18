/* X.509 by OpenSSL (RFC 5280). */
#include "gateway/membership/certificate_authority.h"

#include "common/base/random_id.h"
#include "common/net/tls_key_digest.h"
#include "common/protocol/join/join_messages.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

enum {
    SERIAL_BYTES = 16,
    AUTHORITY_LIFE_DAYS = 3652,
    AUTHORITY_BACKDATED_DAYS = 365,
};

struct lh_certificate_authority {
    X509 *certificate;
    EVP_PKEY *key; /* NULL: not known any more */
    uint8_t pin[LH_SHA256_BYTES];
    char id[LH_AUTHORITY_ID_BYTES];
};

static lh_status no_memory(lh_error *error) {
    ERR_clear_error();
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate");
}

/* ---- Parts of a certificate ---- */

static bool add_extension(X509 *certificate, X509V3_CTX *context, int nid, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
    bool is_added = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_added;
}

static bool set_subject(X509 *certificate, const char *common_name) {
    return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                      MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1,
                                      0) == 1;
}

static bool set_times(X509 *certificate, int64_t not_before_s, int64_t not_after_s) {
    return ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)not_before_s) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)not_after_s);
}

/* Random (RFC 5280, 4.1.2.2), above 0, and of one length, so that its digits are one text. */
static void make_serial(char text[LH_SERIAL_BYTES]) {
    uint64_t halves[2] = {lh_random_u64(), lh_random_u64()};
    uint8_t bytes[SERIAL_BYTES];
    memcpy(bytes, halves, sizeof bytes);
    bytes[0] = (uint8_t)((bytes[0] & 0x3f) | 0x40);
    for (size_t i = 0; i < SERIAL_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02X", bytes[i]);
}

static bool set_serial(X509 *certificate, const char *text) {
    BIGNUM *number = NULL;
    bool is_set = BN_hex2bn(&number, text) == LH_SERIAL_BYTES - 1 &&
                  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return is_set;
}

/* Version 3, without names and extensions. NULL: no memory. */
static X509 *begin(EVP_PKEY *key, int64_t not_before_s, int64_t not_after_s, const char *serial) {
    X509 *certificate = X509_new();
    if (certificate && X509_set_version(certificate, X509_VERSION_3) == 1 &&
        set_serial(certificate, serial) && set_times(certificate, not_before_s, not_after_s) &&
        X509_set_pubkey(certificate, key) == 1)
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* ---- An authority ---- */

static lh_status name_by_key(lh_certificate_authority *authority, lh_error *error) {
    char hex[LH_SHA256_HEX_BYTES];
    if (!lh_tls_key_digest(X509_get_X509_PUBKEY(authority->certificate), authority->pin))
        return no_memory(error);
    lh_sha256_render(authority->pin, hex);
    memcpy(authority->id, hex, sizeof authority->id - 1);
    return LH_OK;
}

/* The subject tells authorities apart, where one follows another. */
static bool sign_itself(lh_certificate_authority *authority) {
    char subject[64];
    X509V3_CTX context;
    X509 *certificate = authority->certificate;
    snprintf(subject, sizeof subject, "longhaul fleet CA %s", authority->id);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    return set_subject(certificate, subject) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
           add_extension(certificate, &context, NID_basic_constraints,
                         "critical,CA:TRUE,pathlen:0") &&
           add_extension(certificate, &context, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_extension(certificate, &context, NID_subject_key_identifier, "hash") &&
           X509_sign(certificate, authority->key, EVP_sha256()) > 0;
}

lh_status lh_certificate_authority_make(int64_t now_s, lh_certificate_authority **out,
                                        lh_error *error) {
    char serial[LH_SERIAL_BYTES];
    lh_certificate_authority *authority = calloc(1, sizeof *authority);
    if (!authority)
        return no_memory(error);
    authority->key = EVP_EC_gen("P-256");
    make_serial(serial);
    if (authority->key)
        authority->certificate =
            begin(authority->key, now_s - (int64_t)AUTHORITY_BACKDATED_DAYS * 86400,
                  now_s + (int64_t)AUTHORITY_LIFE_DAYS * 86400, serial);
    lh_status status = authority->certificate ? name_by_key(authority, error) : no_memory(error);
    if (status == LH_OK && !sign_itself(authority))
        status = no_memory(error);
    if (status == LH_OK)
        *out = authority;
    else
        lh_certificate_authority_destroy(authority);
    return status;
}

void lh_certificate_authority_destroy(lh_certificate_authority *authority) {
    if (!authority)
        return;
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

static lh_status check_parsed(lh_certificate_authority *authority, lh_error *error) {
    if (!authority->certificate || X509_check_ca(authority->certificate) != 1)
        return lh_fail(error, LH_ERR_INVALID, "there is no certificate of a CA in it");
    if (authority->key && X509_check_private_key(authority->certificate, authority->key) != 1)
        return lh_fail(error, LH_ERR_INVALID, "the key in it is not that of the certificate");
    return name_by_key(authority, error);
}

lh_status lh_certificate_authority_parse(const char *pem, size_t length,
                                         lh_certificate_authority **out, lh_error *error) {
    lh_certificate_authority *authority = calloc(1, sizeof *authority);
    if (!authority || length > INT_MAX) {
        free(authority);
        return no_memory(error);
    }
    BIO *bio = BIO_new_mem_buf(pem, (int)length), *again = BIO_new_mem_buf(pem, (int)length);
    if (bio && again) { /* each reads over the other's part; "": no password is asked for */
        authority->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, "");
        authority->certificate = PEM_read_bio_X509(again, NULL, NULL, "");
    }
    BIO_free(bio);
    BIO_free(again);
    lh_status status = check_parsed(authority, error);
    ERR_clear_error();
    if (status == LH_OK)
        *out = authority;
    else
        lh_certificate_authority_destroy(authority);
    return status;
}

const uint8_t *lh_certificate_authority_pin(const lh_certificate_authority *authority) {
    return authority->pin;
}

const char *lh_certificate_authority_id(const lh_certificate_authority *authority) {
    return authority->id;
}

bool lh_certificate_authority_has_key(const lh_certificate_authority *authority) {
    return authority->key;
}

/* ---- As PEM ---- */

/* Appends what was written into it, and frees it; it may be NULL. Memory BIOs wipe what they held.
 */
static lh_status append_bio(BIO *bio, bool is_written, lh_text_buffer *pem) {
    char *bytes;
    long length = bio && is_written ? BIO_get_mem_data(bio, &bytes) : 0;
    lh_status status =
        length > 0 ? lh_text_buffer_append(pem, bytes, (size_t)length, NULL) : LH_ERR_NO_MEMORY;
    BIO_free(bio);
    return status;
}

static lh_status render_key(const EVP_PKEY *key, lh_text_buffer *pem) {
    BIO *bio = BIO_new(BIO_s_secmem());
    bool is_written = bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    return append_bio(bio, is_written, pem);
}

static lh_status render_certificate(X509 *certificate, lh_text_buffer *pem) {
    BIO *bio = BIO_new(BIO_s_mem());
    return append_bio(bio, bio && PEM_write_bio_X509(bio, certificate) == 1, pem);
}

lh_status lh_certificate_authority_render_key(const lh_certificate_authority *authority,
                                              lh_text_buffer *pem) {
    return render_key(authority->key, pem);
}

lh_status lh_certificate_authority_render_certificate(const lh_certificate_authority *authority,
                                                      lh_text_buffer *pem) {
    return render_certificate(authority->certificate, pem);
}

/* ---- Certificates for others ---- */

/* Appends a name of type GEN_URI, GEN_DNS or GEN_IPADD. */
static bool push_name(GENERAL_NAMES *names, int type, ASN1_STRING *value) {
    GENERAL_NAME *name = value ? GENERAL_NAME_new() : NULL;
    if (name)
        GENERAL_NAME_set0_value(name, type, value);
    else
        ASN1_STRING_free(value);
    if (name && sk_GENERAL_NAME_push(names, name) > 0)
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static ASN1_STRING *make_text(const char *text) {
    ASN1_STRING *string = ASN1_IA5STRING_new();
    if (string && ASN1_STRING_set(string, text, -1) == 1)
        return string;
    ASN1_STRING_free(string);
    return NULL;
}

static bool push_host(GENERAL_NAMES *names, const char *host) {
    ASN1_STRING *address = a2i_IPADDRESS(host);
    if (address)
        return push_name(names, GEN_IPADD, address);
    ERR_clear_error();
    return push_name(names, GEN_DNS, make_text(host));
}

static bool add_names(X509 *certificate, const lh_certificate_terms *terms) {
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    bool are_there = names && push_name(names, GEN_URI, make_text(terms->uri));
    for (size_t i = 0; i < terms->host_count && are_there; i++)
        are_there = push_host(names, terms->hosts[i]);
    are_there = are_there && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0,
                                               X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return are_there;
}

static bool complete(X509 *certificate, const lh_certificate_authority *authority,
                     const lh_certificate_terms *terms) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, authority->certificate, certificate, NULL, NULL, 0);
    return set_subject(certificate, terms->common_name) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(authority->certificate)) == 1 &&
           add_extension(certificate, &context, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, &context, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, &context, NID_ext_key_usage, "serverAuth,clientAuth") &&
           add_extension(certificate, &context, NID_subject_key_identifier, "hash") &&
           add_extension(certificate, &context, NID_authority_key_identifier, "keyid") &&
           add_names(certificate, terms) &&
           X509_sign(certificate, authority->key, EVP_sha256()) > 0;
}

lh_status lh_certificate_authority_issue(const lh_certificate_authority *authority, EVP_PKEY *key,
                                         const lh_certificate_terms *terms,
                                         char serial[LH_SERIAL_BYTES], lh_text_buffer *pem,
                                         lh_error *error) {
    if (!authority->key)
        return lh_fail(error, LH_ERR_INVALID, "the CA %s has no key any more", authority->id);
    if (!serial[0])
        make_serial(serial);
    if (strspn(serial, "0123456789ABCDEF") != LH_SERIAL_BYTES - 1)
        return lh_fail(error, LH_ERR_INVALID, "'%.32s' is no serial number", serial);
    X509 *certificate = begin(key, terms->not_before_s, terms->not_after_s, serial);
    lh_status status = certificate && complete(certificate, authority, terms)
                           ? render_certificate(certificate, pem)
                           : LH_ERR_NO_MEMORY;
    X509_free(certificate);
    return status == LH_OK ? LH_OK : no_memory(error);
}

lh_status lh_certificate_authority_issue_pair(const lh_certificate_authority *authority,
                                              const lh_certificate_terms *terms,
                                              char serial[LH_SERIAL_BYTES], lh_text_buffer *pem,
                                              lh_error *error) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    lh_status status =
        key && render_key(key, pem) == LH_OK
            ? lh_certificate_authority_issue(authority, key, terms, serial, pem, error)
            : no_memory(error);
    EVP_PKEY_free(key);
    return status;
}

/* ---- Certificates that were issued before ---- */

static bool has_names(const X509 *certificate, const lh_certificate_terms *terms) {
    X509 *wanted = X509_new();
    int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
    bool is_same =
        wanted && at >= 0 && set_subject(wanted, terms->common_name) && add_names(wanted, terms) &&
        X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_subject_name(wanted)) == 0 &&
        ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(X509_get_ext(certificate, at)),
                              X509_EXTENSION_get_data(X509_get_ext(wanted, 0))) == 0;
    X509_free(wanted);
    return is_same;
}

static bool read_times(const X509 *certificate, lh_certificate_terms *terms) {
    struct tm from, until;
    if (ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &from) != 1 ||
        ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until) != 1)
        return false;
    terms->not_before_s = timegm(&from);
    terms->not_after_s = timegm(&until);
    return true;
}

bool lh_certificate_authority_has_issued(const lh_certificate_authority *authority, const char *pem,
                                         size_t length, lh_certificate_terms *terms) {
    BIO *bio = length <= INT_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, "") : NULL;
    X509 *certificate = key ? PEM_read_bio_X509(bio, NULL, NULL, "") : NULL;
    bool is_own = certificate && X509_check_private_key(certificate, key) == 1 &&
                  X509_verify(certificate, X509_get0_pubkey(authority->certificate)) == 1 &&
                  has_names(certificate, terms) && read_times(certificate, terms);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    return is_own;
}
