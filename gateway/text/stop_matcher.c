/* One Knuth-Morris-Pratt automaton for each string, side by side: with at most 16 strings this is
 * linear, and small even for strings of megabytes, where the table of an Aho-Corasick automaton
 * would be 256 times as large. */
#include "gateway/text/stop_matcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct stop_automaton {
    char *bytes; /* [length] */
    /* [length]: of bytes[0 .. i], the longest proper prefix that is also its suffix */
    size_t *border;
    size_t length;
    size_t matched; /* bytes of the string that the text ends with */
} stop_automaton;

struct lh_stop_matcher {
    stop_automaton automata[LH_STOP_STRINGS_MAX];
    size_t count;
    lh_text_buffer held; /* the end of the text: as long as the longest `matched` */
    int found;
};

static void automaton_reset(stop_automaton *automaton) {
    free(automaton->bytes);
    free(automaton->border);
}

static lh_status automaton_init(stop_automaton *automaton, const lh_stop_string *string,
                                lh_error *error) {
    automaton->length = string->length;
    automaton->bytes = malloc(string->length);
    automaton->border = calloc(string->length, sizeof *automaton->border);
    if (!automaton->bytes || !automaton->border)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a stop string of %zu bytes",
                       string->length);
    memcpy(automaton->bytes, string->bytes, string->length);
    size_t border = 0;
    for (size_t i = 1; i < string->length; i++) {
        while (border > 0 && string->bytes[i] != string->bytes[border])
            border = automaton->border[border - 1];
        if (string->bytes[i] == string->bytes[border])
            border++;
        automaton->border[i] = border;
    }
    return LH_OK;
}

lh_status lh_stop_matcher_create(const lh_stop_string *strings, size_t count,
                                 lh_stop_matcher **matcher, lh_error *error) {
    if (count > LH_STOP_STRINGS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%zu stop strings are more than %d", count,
                       LH_STOP_STRINGS_MAX);
    lh_stop_matcher *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for stop strings");
    made->found = -1;
    lh_status status = LH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        made->count = i + 1;
        if (strings[i].length == 0)
            status = lh_fail(error, LH_ERR_INVALID, "stop string %zu is empty", i);
        else
            status = automaton_init(&made->automata[i], &strings[i], error);
    }
    if (status) {
        lh_stop_matcher_destroy(made);
        return status;
    }
    *matcher = made;
    return LH_OK;
}

void lh_stop_matcher_destroy(lh_stop_matcher *matcher) {
    if (!matcher)
        return;
    for (size_t i = 0; i < matcher->count; i++)
        automaton_reset(&matcher->automata[i]);
    lh_text_buffer_reset(&matcher->held);
    free(matcher);
}

/* Moves on by one byte. True: the string is complete. */
static bool automaton_step(stop_automaton *automaton, char byte) {
    assert(automaton->matched < automaton->length);
    while (automaton->matched > 0 && automaton->bytes[automaton->matched] != byte)
        automaton->matched = automaton->border[automaton->matched - 1];
    if (automaton->bytes[automaton->matched] == byte)
        automaton->matched++;
    return automaton->matched == automaton->length;
}

/* All automata move on by one byte; the longest string that ends here, or -1. */
static int step(lh_stop_matcher *matcher, char byte) {
    int found = -1;
    for (size_t i = 0; i < matcher->count; i++)
        if (automaton_step(&matcher->automata[i], byte) &&
            (found < 0 || matcher->automata[i].length > matcher->automata[found].length))
            found = (int)i;
    return found;
}

static size_t longest_match(const lh_stop_matcher *matcher) {
    size_t longest = 0;
    for (size_t i = 0; i < matcher->count; i++)
        if (matcher->automata[i].matched > longest)
            longest = matcher->automata[i].matched;
    return longest;
}

/* Passes all but the last `keep` bytes of the held text on. */
static lh_status release(lh_stop_matcher *matcher, size_t keep, lh_text_buffer *out,
                         lh_error *error) {
    lh_text_buffer *held = &matcher->held;
    assert(keep <= held->length);
    size_t free_to_go = held->length - keep;
    lh_status status = lh_text_buffer_append(out, held->bytes, free_to_go, error);
    if (!status && keep > 0 && free_to_go > 0)
        memmove(held->bytes, held->bytes + free_to_go, keep);
    held->length = keep;
    return status;
}

lh_status lh_stop_matcher_push(lh_stop_matcher *matcher, const char *bytes, size_t length,
                               lh_text_buffer *out, bool *stopped, lh_error *error) {
    *stopped = matcher->found >= 0;
    if (*stopped)
        return LH_OK;
    size_t used = 0;
    while (used < length && matcher->found < 0)
        matcher->found = step(matcher, bytes[used++]);
    lh_status status = lh_text_buffer_append(&matcher->held, bytes, used, error);
    if (status)
        return status;
    if (matcher->found < 0)
        return release(matcher, longest_match(matcher), out, error);
    *stopped = true;
    status = release(matcher, matcher->automata[matcher->found].length, out, error);
    matcher->held.length = 0; /* the stop string itself is not part of the answer */
    return status;
}

lh_status lh_stop_matcher_finish(lh_stop_matcher *matcher, lh_text_buffer *out, lh_error *error) {
    return release(matcher, 0, out, error);
}

int lh_stop_matcher_found(const lh_stop_matcher *matcher) {
    return matcher->found;
}

lh_stop_string lh_stop_matcher_string(const lh_stop_matcher *matcher, int index) {
    const stop_automaton *automaton = &matcher->automata[index];
    return (lh_stop_string){automaton->bytes, automaton->length};
}
