/* Token, clock, name: in this order. */
#include "gateway/membership/admission.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((format(printf, 3, 4))) static bool
refuse(lh_join_refusal *refusal, lh_join_refusal_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(refusal->message, sizeof refusal->message, format, arguments);
    va_end(arguments);
    refusal->code = code;
    return false;
}

bool lh_admission_agrees_on_time(int64_t worker_s, int64_t now_s, lh_join_refusal *refusal) {
    int64_t behind_s = now_s - worker_s;
    if (llabs(behind_s) <= LH_ADMISSION_CLOCK_S)
        return true;
    return refuse(refusal, LH_JOIN_CLOCK_WRONG,
                  "the worker's clock is %" PRId64 " seconds %s the gateway's: set the one that is "
                  "wrong (timedatectl set-ntp true)",
                  (int64_t)llabs(behind_s), behind_s > 0 ? "behind" : "ahead of");
}

/* The token's name, or the worker's own choice. NULL: refused. */
static const char *choose_name(const lh_invitation *invitation, const char *wanted,
                               lh_join_refusal *refusal) {
    if (invitation->name[0] && wanted[0] && strcmp(invitation->name, wanted) != 0)
        refuse(refusal, LH_JOIN_NAME_WRONG,
               "the token is for a worker of another name: leave --name out, or ask for a token "
               "for this one");
    else if (invitation->name[0] || wanted[0])
        return invitation->name[0] ? invitation->name : wanted;
    else
        refuse(refusal, LH_JOIN_NAME_INVALID,
               "the token is for any name, so the worker has to say its own: give --name");
    return NULL;
}

/* Who has used the token with this key before has got its name then. */
static const char *find_name(const lh_invitation *invitation, const lh_join_request *request,
                             const uint8_t key_sha256[LH_SHA256_BYTES], lh_join_refusal *refusal) {
    const lh_invitation_use *use = lh_invitation_find_use(invitation, key_sha256);
    if (!use)
        return choose_name(invitation, request->name, refusal);
    if (request->name[0] && strcmp(request->name, use->name) != 0) {
        refuse(refusal, LH_JOIN_NAME_WRONG, "with this key and token the worker joined as %s",
               use->name);
        return NULL;
    }
    return use->name;
}

bool lh_admission_decide(const lh_records *records, const lh_join_request *request,
                         const uint8_t key_sha256[LH_SHA256_BYTES], int64_t now_s,
                         lh_admission *admission, lh_join_refusal *refusal) {
    const lh_invitation *invitation = lh_records_find_invitation(records, request->token);
    if (!lh_invitation_admits(invitation, request->secret, key_sha256, now_s, refusal) ||
        !lh_admission_agrees_on_time(request->time_s, now_s, refusal))
        return false;
    const char *name = find_name(invitation, request, key_sha256, refusal);
    if (!name)
        return false;
    if (lh_member_list_has_taken(&records->members, name, key_sha256, now_s))
        return refuse(refusal, LH_JOIN_NAME_TAKEN,
                      "a worker has the name %s: choose another one with --name, or if that worker "
                      "is gone for good: longhaul-gateway revoke worker %s",
                      name, name);
    snprintf(admission->name, sizeof admission->name, "%s", name);
    snprintf(admission->site, sizeof admission->site, "%s", invitation->site);
    return true;
}

/* ---- Renewing ---- */

bool lh_admission_is_early(int64_t issued_s, int64_t now_s) {
    return issued_s > now_s + LH_ADMISSION_CLOCK_S;
}

static int64_t due_s(const lh_member *member) {
    return member->issued_s + (member->expires_s - member->issued_s) / 2;
}

bool lh_admission_is_fresh(const lh_records *records, const lh_member *member, int64_t now_s) {
    const char *signing = lh_authority_list_signing(&records->authorities)->id;
    return strcmp(member->authority, signing) == 0 && now_s < due_s(member) &&
           !lh_admission_is_early(member->issued_s, now_s);
}

static bool refuse_early(const lh_member *shown, lh_join_refusal *refusal) {
    char due[32] = "?";
    struct tm parts;
    time_t when = (time_t)due_s(shown);
    if (gmtime_r(&when, &parts))
        strftime(due, sizeof due, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return refuse(refusal, LH_JOIN_NOT_DUE,
                  "this certificate of worker %s is renewed from %s on, or as soon as the fleet "
                  "changes its CA",
                  shown->name, due);
}

bool lh_admission_decide_renewal(const lh_records *records, const lh_renewal_claim *claim,
                                 int64_t now_s, lh_join_refusal *refusal) {
    const lh_member_list *members = &records->members;
    const lh_member *shown = lh_member_list_find_serial(members, claim->serial);
    if (!shown || strcmp(shown->name, claim->name) != 0 || !lh_member_is_good(shown, now_s))
        return refuse(refusal, LH_JOIN_TOKEN_REVOKED,
                      "the certificates of worker %s are revoked, or not of this fleet",
                      claim->name);
    const lh_member *same = lh_member_list_find_key(members, claim->name, claim->key_sha256, now_s);
    if (same && lh_admission_is_fresh(records, same, now_s))
        return true;
    if (lh_admission_is_fresh(records, shown, now_s))
        return refuse_early(shown, refusal);
    size_t count = lh_member_list_count(members, claim->name, &records->authorities, now_s);
    if (count <
        (claim->is_where_it_serves ? LH_MEMBER_CERTIFICATES_MAX : LH_ADMISSION_ANYWHERE_MAX))
        return true;
    return refuse(refusal, LH_JOIN_TOO_MANY,
                  "worker %s has %zu certificates that are good: ask from the machine on which it "
                  "serves, or revoke it and join again",
                  claim->name, count);
}
