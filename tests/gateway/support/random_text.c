/* Characters by their numbers. */
#include "tests/gateway/support/random_text.h"

#include "tests/support/gguf_writer.h"

#include <stdlib.h>

#define CHARACTERS_MAX 24u

size_t random_text(uint64_t *random, char text[RANDOM_TEXT_BYTES]) {
    size_t length = 0, characters = test_random(random) % CHARACTERS_MAX;
    for (size_t i = 0; i < characters; i++) {
        uint32_t code =
            (uint32_t)(test_random(random) % (test_random(random) % 2 ? 0x80 : 0x110000));
        if (code < 0x80) {
            text[length++] = (char)code;
        } else if (code < 0x800) {
            text[length++] = (char)(0xC0 | code >> 6);
            text[length++] = (char)(0x80 | (code & 63));
        } else if (code < 0x10000) {
            if ((code >= 0xD800 && code < 0xE000) || code == 0x2581)
                continue;
            text[length++] = (char)(0xE0 | code >> 12);
            text[length++] = (char)(0x80 | (code >> 6 & 63));
            text[length++] = (char)(0x80 | (code & 63));
        } else {
            text[length++] = (char)(0xF0 | code >> 18);
            text[length++] = (char)(0x80 | (code >> 12 & 63));
            text[length++] = (char)(0x80 | (code >> 6 & 63));
            text[length++] = (char)(0x80 | (code & 63));
        }
    }
    return length;
}

size_t random_texts_wanted(void) {
    const char *wanted = getenv("LONGHAUL_TEST_ROUND_TRIPS");
    if (wanted)
        return strtoul(wanted, NULL, 10);
    return getenv("LONGHAUL_TEST_THOROUGH") ? 1000000 : 4000;
}
