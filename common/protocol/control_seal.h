/* The checksum of what worker and gateway tell each other (CONTROL.md). Without TLS nothing else
 * notices a flipped bit that leaves a message well-formed: another digit is another layer.
 *
 * A sealed message is its JSON text and a last line, "\ncrc32c=" and 8 hexadecimal digits and "\n":
 * the CRC32C of the worker's name and the text. The name is in it since the path says whose report
 * it is, and the path has no checksum either. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

/* Takes a malloc'd, terminated text over, and gives it back with its seal; the caller frees it.
 * NULL: out of memory, or text was NULL. */
char *lh_control_seal(const char *worker_name, char *text);

/* Length of the text within a sealed message. LH_ERR_CORRUPT: it has no seal, or not this one. */
lh_status lh_control_unseal(const char *worker_name, const char *bytes, size_t length,
                            size_t *text_bytes, lh_error *error);
