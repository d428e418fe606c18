/* One instruction per 8 bytes with SSE4.2 (about 8 GB/s, an order above any link) or with aarch64's
 * CRC32 (which all but its first processors have), else a table of half bytes. The instruction is
 * reached by the compiler's builtin in a function of its own target: the file needs no flags, and
 * the wall around intrinsics headers (STYLE.md) stays whole. */
#include "common/base/crc32c.h"

#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

/* crc of the half byte i: the reflected polynomial 0x82f63b78 applied four times. */
static const uint32_t half_byte[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t lh_crc32c_portable(uint32_t crc, const void *bytes, size_t length) {
    const uint8_t *byte = bytes;
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= byte[i];
        crc = crc >> 4 ^ half_byte[crc & 15];
        crc = crc >> 4 ^ half_byte[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
#define HAS_INSTRUCTION       __builtin_cpu_supports("sse4.2")
#define WITH_INSTRUCTION      __attribute__((target("sse4.2")))
#define CRC_WORD(state, word) __builtin_ia32_crc32di(state, word)
#define CRC_BYTE(state, byte) __builtin_ia32_crc32qi(state, byte)
#elif defined(__aarch64__)
#define HAS_INSTRUCTION       ((getauxval(AT_HWCAP) & HWCAP_CRC32) != 0)
#define WITH_INSTRUCTION      __attribute__((target("+crc")))
#define CRC_WORD(state, word) __builtin_aarch64_crc32cx((uint32_t)(state), word)
#define CRC_BYTE(state, byte) __builtin_aarch64_crc32cb(state, byte)
#endif

#ifdef HAS_INSTRUCTION
WITH_INSTRUCTION static uint32_t crc32c_instruction(uint32_t crc, const uint8_t *bytes,
                                                    size_t length) {
    uint64_t state = (uint32_t)~crc;
    for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        state = CRC_WORD(state, word);
    }
    uint32_t narrow = (uint32_t)state;
    for (; length > 0; length--)
        narrow = CRC_BYTE(narrow, *bytes++);
    return ~narrow;
}
#endif

uint32_t lh_crc32c(uint32_t crc, const void *bytes, size_t length) {
#ifdef HAS_INSTRUCTION
    if (HAS_INSTRUCTION)
        return crc32c_instruction(crc, bytes, length);
#endif
    return lh_crc32c_portable(crc, bytes, length);
}
