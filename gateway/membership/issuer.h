/* Gives certificates: a worker's, which says its name and site and never a name of the gateway's;
 * and the gateway's own. Plain data; the keys are in the fleet's folder (membership.h). It asks for
 * no time: now_s is Unix time. Its functions block, for as long as a disk takes. Thread: any. */
#pragma once

#include "common/base/state_folder.h"
#include "gateway/membership/certificate_request.h"
#include "gateway/membership/host_name.h"
#include "gateway/membership/records_file.h"

#define LH_ISSUER_HOSTS_MAX 8u

typedef struct lh_issuer {
    char folder[LH_STATE_PATH_BYTES];
    int64_t life_s; /* of its certificates */
    /* The gateway's own: they stand in its certificate, and in no other. */
    char hosts[LH_ISSUER_HOSTS_MAX][LH_HOST_NAME_BYTES];
    size_t host_count;
} lh_issuer;

/* Texts are copied. Of the hosts, LH_ISSUER_HOSTS_MAX at most, those that are valid count. */
void lh_issuer_init(lh_issuer *issuer, const char *folder, int64_t life_s, const char *const *hosts,
                    size_t host_count);

/* Whom a certificate is for. Nothing is copied. */
typedef struct lh_applicant {
    const char *name, *site;
    const char *observed; /* the IP address that asks */
    const char (*addresses)[LH_JOIN_HOST_BYTES];
    size_t address_count; /* LH_JOIN_ADDRESSES_MAX at most */
    const lh_certificate_request *request;
} lh_applicant;

/* Signs with the CA that signs, adds the certificate to the records of the change, and fills the
 * grant with it and the bundle of CAs. Where the records have a fresh one of this name for the same
 * key, that one is issued once more, and none is added. LH_ERR_IO, LH_ERR_INVALID: of the CA's
 * files; LH_ERR_LIMIT; LH_ERR_NO_MEMORY: the change is to be abandoned. */
lh_status lh_issuer_grant(const lh_issuer *issuer, lh_records_change *change,
                          const lh_applicant *applicant, int64_t now_s, lh_join_grant *grant,
                          lh_error *error);

/* When a certificate was issued, and when it ends. Unix time. */
typedef struct lh_issued_life {
    int64_t issued_s, ends_s;
} lh_issued_life;

/* Whether the file of this name in the folder has the gateway's own key and a certificate as
 * lh_issuer_issue_own would make them, and from when until when that is good. */
bool lh_issuer_read_own(const lh_issuer *issuer, const char *file, const char *id,
                        lh_issued_life *life);
/* Makes the gateway's own key and certificate, signed by the CA of this id, and writes them and the
 * CA's certificate to the file of this name in the folder. Errors as above. */
lh_status lh_issuer_issue_own(const lh_issuer *issuer, const char *file, const char *id,
                              int64_t now_s, lh_error *error);
