/* name=value, five of them. */
#include "link/line_words.h"

#include <stdlib.h>
#include <string.h>

bool lh_line_number_read(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= 0 && *number < 1e9;
}

/* The one that the word begins with, and where its value begins; NULL: none. */
static double *find(lh_line_settings *settings, const char *word, const char **value) {
    static const char *const names[] = {"rate=", "delay=", "jitter=", "loss=", "queue="};
    double *const values[] = {&settings->rate_mbit, &settings->delay_ms, &settings->jitter_ms,
                              &settings->loss_percent, &settings->queue_ms};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *value = word + strlen(names[i]);
        if (strncmp(word, names[i], strlen(names[i])) == 0)
            return values[i];
    }
    return NULL;
}

const char *lh_line_words_read(lh_line_settings *settings, char *words) {
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        const char *text;
        double *value = find(settings, word, &text);
        if (!value || !lh_line_number_read(text, value))
            return word;
    }
    return NULL;
}
