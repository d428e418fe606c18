/* A change of the records for each who is let in. */
#include "gateway/membership/certificate_grant.h"

#include "common/base/log.h"
#include "gateway/membership/admission.h"

#include <stdio.h>
#include <string.h>

static bool refuse_unavailable(const lh_error *cause, lh_join_refusal *refusal) {
    lh_log(LH_LOG_ERROR, "fleet", "a worker cannot be given a certificate: %s", cause->message);
    refusal->code = LH_JOIN_UNAVAILABLE;
    snprintf(refusal->message, sizeof refusal->message,
             "the gateway cannot give a certificate now: its log says why");
    return false;
}

static lh_certificate_request *read_request(const char *csr, lh_join_refusal *refusal) {
    lh_certificate_request *request;
    lh_error error;
    lh_status status = lh_certificate_request_parse(csr, strlen(csr), &request, &error);
    if (status == LH_OK)
        return request;
    if (status == LH_ERR_NO_MEMORY) {
        refuse_unavailable(&error, refusal);
        return NULL;
    }
    refusal->code = LH_JOIN_CSR_INVALID;
    snprintf(refusal->message, sizeof refusal->message, "%.*s", (int)sizeof refusal->message - 1,
             error.message);
    return NULL;
}

/* Ends the change. */
static bool grant_and_commit(const lh_issuer *issuer, lh_records_change *change,
                             const lh_applicant *a, int64_t now_s, lh_join_grant *grant,
                             lh_join_refusal *refusal) {
    lh_error error;
    lh_status status = lh_issuer_grant(issuer, change, a, now_s, grant, &error);
    if (status != LH_OK)
        lh_records_abandon(change);
    else
        status = lh_records_commit(change, &error);
    return status == LH_OK || refuse_unavailable(&error, refusal);
}

/* ---- Joining ---- */

/* Ends the change. */
static bool admit(const lh_issuer *issuer, lh_records_change *change,
                  const lh_join_request *request, const lh_certificate_request *csr,
                  const char *observed, int64_t now_s, lh_join_grant *grant,
                  lh_join_refusal *refusal) {
    const uint8_t *key_sha256 = lh_certificate_request_key_sha256(csr);
    const lh_error no_memory = {LH_ERR_NO_MEMORY, "no memory for a token's use"};
    lh_admission admission;
    bool is_admitted =
        lh_admission_decide(&change->records, request, key_sha256, now_s, &admission, refusal);
    if (is_admitted &&
        !lh_invitation_note_use(lh_records_find_invitation(&change->records, request->token),
                                key_sha256, admission.name))
        is_admitted = refuse_unavailable(&no_memory, refusal);
    if (!is_admitted) {
        lh_records_abandon(change);
        return false;
    }
    const lh_applicant a = {.name = admission.name,
                            .site = admission.site,
                            .observed = observed,
                            .addresses = request->addresses,
                            .address_count = request->address_count,
                            .request = csr};
    return grant_and_commit(issuer, change, &a, now_s, grant, refusal);
}

bool lh_certificate_grant_join(const lh_issuer *issuer, const lh_join_request *request,
                               const char *observed, int64_t now_s, lh_join_grant *grant,
                               lh_join_refusal *refusal) {
    lh_records_change change;
    lh_error error;
    bool is_granted = false;
    lh_certificate_request *csr = read_request(request->csr, refusal);
    if (!csr)
        return false;
    if (lh_records_begin(issuer->folder, &change, &error) == LH_OK)
        is_granted = admit(issuer, &change, request, csr, observed, now_s, grant, refusal);
    else
        refuse_unavailable(&error, refusal);
    lh_certificate_request_destroy(csr);
    return is_granted;
}

/* ---- Renewing ---- */

/* Ends the change. */
static bool renew(const lh_issuer *issuer, lh_records_change *change,
                  const lh_renewing_member *member, const lh_applicant *a, int64_t now_s,
                  lh_join_grant *grant, lh_join_refusal *refusal) {
    const lh_renewal_claim claim = {.name = member->name,
                                    .serial = member->serial,
                                    .key_sha256 = lh_certificate_request_key_sha256(a->request),
                                    .is_where_it_serves = member->is_where_it_serves};
    if (lh_admission_decide_renewal(&change->records, &claim, now_s, refusal))
        return grant_and_commit(issuer, change, a, now_s, grant, refusal);
    lh_records_abandon(change);
    return false;
}

bool lh_certificate_grant_renewal(const lh_issuer *issuer, const lh_renewing_member *member,
                                  const lh_join_renewal *renewal, int64_t now_s,
                                  lh_join_grant *grant, lh_join_refusal *refusal) {
    lh_records_change change;
    lh_error error;
    bool is_granted = false;
    if (!lh_admission_agrees_on_time(renewal->time_s, now_s, refusal))
        return false;
    lh_certificate_request *csr = read_request(renewal->csr, refusal);
    if (!csr)
        return false;
    const lh_applicant a = {.name = member->name,
                            .site = member->site,
                            .observed = member->observed,
                            .addresses = renewal->addresses,
                            .address_count = renewal->address_count,
                            .request = csr};
    if (lh_records_begin(issuer->folder, &change, &error) == LH_OK)
        is_granted = renew(issuer, &change, member, &a, now_s, grant, refusal);
    else
        refuse_unavailable(&error, refusal);
    lh_certificate_request_destroy(csr);
    return is_granted;
}
