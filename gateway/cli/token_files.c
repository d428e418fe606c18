/* What is there is looked at before anything is made, so that doing it again changes nothing. */
#include "gateway/cli/token_files.h"

#include "common/base/state_folder.h"
#include "gateway/membership/host_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN      "longhaul-worker join https://%s "
#define LINE_BYTES (LH_JOIN_TOKEN_TEXT_BYTES + LH_HOST_NAME_BYTES + 64)

/* An authority's id is the first digits of its pin in hex. */
static bool is_pinned_to(const lh_join_token *token, const lh_authority_entry *authority) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_render(token->pin, hex);
    return authority && strncmp(hex, authority->id, LH_AUTHORITY_ID_BYTES - 1) == 0;
}

static bool is_good(const lh_records *records, const lh_join_token *token, const char *site,
                    int64_t until_s) {
    const lh_invitation *invitation = lh_records_find_invitation(records, token->id);
    return invitation && !invitation->is_revoked && invitation->expires_s >= until_s &&
           invitation->use_count < invitation->uses_max && strcmp(invitation->site, site) == 0 &&
           is_pinned_to(token, lh_authority_list_signing(&records->authorities));
}

/* The token of `line` where that is what would be written but for the token. */
static bool read_line(char *line, const char *address, lh_join_token *token) {
    char begin[LINE_BYTES];
    int length = snprintf(begin, sizeof begin, BEGIN, address);
    line[strcspn(line, "\r\n")] = '\0';
    return strncmp(line, begin, (size_t)length) == 0 &&
           lh_join_token_parse(line + length, token, NULL) == LH_OK;
}

/* Whatever is wrong with the file, another token is the answer. */
static bool has_good_token(const char *dir, const char *address, const char *state,
                           const char *site, int64_t until_s) {
    char *text;
    size_t length;
    lh_join_token token;
    lh_records records;
    if (lh_state_file_read(dir, site, LINE_BYTES, &text, &length, NULL) != LH_OK)
        return false;
    bool is_there =
        read_line(text, address, &token) && lh_records_read(state, &records, NULL) == LH_OK;
    if (is_there) {
        is_there = is_good(&records, &token, site, until_s);
        lh_records_reset(&records);
    }
    explicit_bzero(text, length);
    explicit_bzero(&token, sizeof token);
    free(text);
    return is_there;
}

static lh_status write_token(const char *dir, const char *address, lh_membership *membership,
                             const lh_invitation_terms *terms, int64_t now_s, lh_error *error) {
    lh_join_token token;
    char text[LH_JOIN_TOKEN_TEXT_BYTES], line[LINE_BYTES];
    lh_status status = lh_membership_invite(membership, terms, now_s, &token, error);
    if (status != LH_OK)
        return status;
    lh_join_token_render(&token, text);
    int length = snprintf(line, sizeof line, BEGIN "%s\n", address, text);
    status = lh_state_file_write(dir, terms->site, line, (size_t)length, error);
    explicit_bzero(line, sizeof line);
    explicit_bzero(text, sizeof text);
    explicit_bzero(&token, sizeof token);
    return status;
}

static lh_status keep_site(const char *dir, const char *address, const char *state,
                           lh_membership *membership, const lh_invitation_terms *terms,
                           int64_t now_s, lh_error *error) {
    bool is_kept = has_good_token(dir, address, state, terms->site, now_s + terms->life_s / 2);
    lh_status status = is_kept ? LH_OK : write_token(dir, address, membership, terms, now_s, error);
    if (status == LH_OK)
        fprintf(stderr, "%s/%s: %s\n", dir, terms->site, is_kept ? "still good" : "a new token");
    return status;
}

lh_status lh_token_files_keep(const char *dir, const char *address, const char *state,
                              lh_membership *membership, const lh_invitation_terms *terms,
                              int64_t now_s, lh_error *error) {
    lh_status status = lh_state_folder_make(dir, error);
    for (const char *at = terms->site; status == LH_OK;) {
        char site[LH_NAME_BYTES];
        int length = (int)strcspn(at, ",");
        int copied = snprintf(site, sizeof site, "%.*s", length, at);
        /* "." and ".." are names, but no files. */
        if (copied != length || copied >= (int)sizeof site || !lh_name_is_valid(site) ||
            site[0] == '.')
            return lh_fail(error, LH_ERR_INVALID,
                           "--site: '%.*s' is not 1 to 63 of A-Z a-z 0-9 . _ -, or begins with a "
                           "dot",
                           length < 80 ? length : 80, at);
        lh_invitation_terms own = *terms;
        own.site = site;
        status = keep_site(dir, address, state, membership, &own, now_s, error);
        if (!at[length])
            break;
        at += length + 1;
    }
    return status;
}
