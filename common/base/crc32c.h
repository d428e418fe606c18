/* CRC32C, the Castagnoli polynomial as iSCSI uses it (RFC 3720, section 12.1 and appendix B.4).
 * Thread: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 for the first bytes) over bytes[length]: the checksum of two runs of bytes is
 * that of one after the other. Uses the CPU's instruction where there is one; the result is the
 * same. */
uint32_t lh_crc32c(uint32_t crc, const void *bytes, size_t length);

/* The same without the instruction: what tests compare with. */
uint32_t lh_crc32c_portable(uint32_t crc, const void *bytes, size_t length);
