/* The files of a fleet's CAs in its state folder: ca-ID.pem has an authority's key and certificate.
 * The records say which there are. Whoever writes holds the folder's lock. Thread: any. */
#pragma once

#include "gateway/membership/authority_list.h"

/* Makes an authority and its file; its id goes to `id`. Statuses of lh_certificate_authority_make
 * and lh_state_file_write. */
lh_status lh_authority_files_make(const char *folder, int64_t now_s, char id[LH_AUTHORITY_ID_BYTES],
                                  lh_error *error);
/* LH_ERR_INVALID: it is not there, damaged, or another one's (the message has the path);
 * LH_ERR_IO; LH_ERR_NO_MEMORY. */
lh_status lh_authority_files_load(const char *folder, const char *id,
                                  lh_certificate_authority **authority, lh_error *error);
/* Appends the certificates of all, in the list's order. Statuses of lh_authority_files_load. */
lh_status lh_authority_files_render_trust(const char *folder, const lh_authority_list *list,
                                          lh_text_buffer *pem, lh_error *error);

/* What fails here is logged, and tried again at the next turn. */
void lh_authority_files_drop_key(const char *folder, const char *id);
void lh_authority_files_remove(const char *folder, const char *id);
/* Those that are not in the list: made by a program that was killed before it could say so. */
void lh_authority_files_remove_others(const char *folder, const lh_authority_list *list);
