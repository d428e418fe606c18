/* Random texts to be taken apart and put together again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RANDOM_TEXT_BYTES 128

/* Any characters but U+2581, which stands for a space in some vocabularies; every second one ASCII.
 * Valid UTF-8 without a terminator; gives its length, perhaps 0. */
size_t random_text(uint64_t *random, char text[RANDOM_TEXT_BYTES]);

/* How many a test should try: LONGHAUL_TEST_ROUND_TRIPS, or a million with LONGHAUL_TEST_THOROUGH,
 * or 4,000. */
size_t random_texts_wanted(void);
