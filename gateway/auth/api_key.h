/* An API key as its holder has it: made, read from the holder's file, digested. The gateway itself
 * keeps digests alone (key_list.h). Thread: any. */
#pragma once

#include "common/base/digest.h"

#define LH_API_KEY_BYTES 256

/* A new key of 256 random bits. The caller wipes the text. */
void lh_api_key_make(char text[LH_API_KEY_BYTES]);
/* Reads the key's text from a file of one line into text[LH_API_KEY_BYTES]: 1 to 255 visible ASCII
 * characters. LH_ERR_INVALID: it holds something else, or others than its owner may read it;
 * LH_ERR_IO. The caller wipes the text. */
lh_status lh_api_key_read(const char *path, char *text, lh_error *error);
/* The digest of what "Authorization: Bearer KEY" shows, given the header's value. False: it is no
 * such thing, or NULL, or there is no memory. */
bool lh_api_key_digest_shown(const char *authorization, uint8_t digest[LH_SHA256_BYTES]);
