/* Who belongs to a fleet: the gateway's own CA, whom it invites, whom it gives certificates, and
 * whom it has shown the door. All of it stands in one folder, which the running gateway and the
 * commands beside it share (records_file.h):
 *
 *     membership.json   CAs, tokens' hashes, issued certificates
 *     ca-ID.pem         a CA's key and certificate; of one that does not sign any more, the
 *                       certificate alone
 *     trust.pem         the certificates of all CAs that are believed, the one that signs first
 *     gateway.pem       the gateway's own key and certificate, and that of its CA
 *     lock
 *
 * It asks for no time: now_s is Unix time. Its functions block, for as long as a disk takes.
 * Thread: any. */
#pragma once

#include "common/net/tls_credentials.h"
#include "gateway/membership/certificate_grant.h"
#include "gateway/membership/upkeep.h"

typedef struct lh_membership lh_membership;

typedef struct lh_membership_options {
    const char *folder;
    int64_t certificate_life_s; /* of the certificates that it issues */
    /* Names and addresses of the gateway itself: they stand in its certificate, and in no other. */
    const char *hosts[LH_ISSUER_HOSTS_MAX];
    size_t host_count;
} lh_membership_options;

/* Where the folder holds no fleet yet: one is founded, with a CA. LH_ERR_INVALID: the folder, or
 * what is in it, is not as it should be; LH_ERR_IO; LH_ERR_NO_MEMORY. Messages name the file. */
lh_status lh_membership_open(const lh_membership_options *options, int64_t now_s,
                             lh_membership **membership, lh_error *error);
/* The same, but where there is no fleet yet: LH_ERR_NOT_FOUND. */
lh_status lh_membership_open_existing(const lh_membership_options *options,
                                      lh_membership **membership, lh_error *error);
/* NULL is allowed. */
void lh_membership_close(lh_membership *membership);

/* ---- What an operator does ---- */

typedef struct lh_invitation_terms {
    const char *site, *name; /* name "": any */
    uint32_t uses_max;
    int64_t life_s;
} lh_invitation_terms;

/* Makes a token, whose secret the caller wipes. Statuses of lh_records_begin, and LH_ERR_LIMIT. */
lh_status lh_membership_invite(lh_membership *membership, const lh_invitation_terms *terms,
                               int64_t now_s, lh_join_token *token, lh_error *error);
/* LH_ERR_NOT_FOUND: no token has this id. */
lh_status lh_membership_revoke_token(lh_membership *membership, const char *id, lh_error *error);
/* All certificates of the name, and the tokens with which it has joined, since it knows their
 * secrets. LH_ERR_NOT_FOUND: no certificate of the name is good. */
lh_status lh_membership_revoke_worker(lh_membership *membership, const char *name, int64_t now_s,
                                      lh_error *error);
/* Makes the CA that is to sign next, at the latest after overlap_s. Its id goes to `id`. Statuses
 * of lh_authority_list_add_next. */
lh_status lh_membership_rotate(lh_membership *membership, int64_t now_s, int64_t overlap_s,
                               char id[LH_AUTHORITY_ID_BYTES], lh_error *error);

/* ---- What the running gateway does ---- */

/* The files of its TLS; they are there after the first lh_upkeep_refresh, and as long as the
 * membership. */
lh_tls_options lh_membership_tls(const lh_membership *membership);
/* Keeps where the fleet port listens, for tokens. */
lh_status lh_membership_note_listen(lh_membership *membership, const char *fleet_listen,
                                    lh_error *error);

/* Lets workers in (certificate_grant.h). As long as the membership. */
const lh_issuer *lh_membership_issuer(const lh_membership *membership);
/* To be called now and then. As long as the membership. */
lh_upkeep *lh_membership_upkeep(lh_membership *membership);
