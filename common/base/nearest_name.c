/* Levenshtein's distance, one row of its table at a time. */
#include "common/base/nearest_name.h"

#include <string.h>

#define BYTES_MAX 64 /* of names that people type */

void lh_nearest_name_init(lh_nearest_name *nearest, const char *word, size_t length) {
    /* Further away than that is no slip of the finger. */
    *nearest = (lh_nearest_name){.word = word, .length = length, .edits = length / 3 + 2};
}

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edits (insert, delete, replace) from a to b. */
static size_t edits_between(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t row[BYTES_MAX];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smallest(replaced, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[b_length];
}

void lh_nearest_name_try(lh_nearest_name *nearest, const char *name) {
    size_t length = strlen(name);
    if (length >= BYTES_MAX || nearest->length >= BYTES_MAX)
        return;
    size_t edits = edits_between(nearest->word, nearest->length, name, length);
    if (edits < nearest->edits) {
        nearest->edits = edits;
        nearest->name = name;
    }
}
