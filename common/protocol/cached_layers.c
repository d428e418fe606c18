/* A list of runs, the last of which grows. */
#include "common/protocol/cached_layers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint32_t length_of(const lh_cached_run *run) {
    return run->last - run->first;
}

static void remove_shortest(lh_cached_layers *cached) {
    uint32_t shortest = 0;
    for (uint32_t i = 1; i < cached->run_count; i++)
        if (length_of(&cached->runs[i]) < length_of(&cached->runs[shortest]))
            shortest = i;
    cached->run_count--;
    memmove(&cached->runs[shortest], &cached->runs[shortest + 1],
            (cached->run_count - shortest) * sizeof *cached->runs);
}

void lh_cached_layers_add(lh_cached_layers *cached, uint32_t layer) {
    lh_cached_run *last = cached->run_count > 0 ? &cached->runs[cached->run_count - 1] : NULL;
    assert(layer < LH_CACHED_LAYERS_MAX && (!last || layer >= last->last));
    if (last && last->last == layer) {
        last->last++;
        return;
    }
    if (cached->run_count == LH_CACHED_RUNS_MAX)
        remove_shortest(cached);
    cached->runs[cached->run_count++] = (lh_cached_run){layer, layer + 1};
}

void lh_cached_layers_render(const lh_cached_layers *cached, char text[LH_CACHED_TEXT_BYTES]) {
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < cached->run_count; i++)
        length +=
            (size_t)snprintf(text + length, LH_CACHED_TEXT_BYTES - length, "%s%u-%u",
                             i > 0 ? "," : "", cached->runs[i].first, cached->runs[i].last - 1);
    assert(length < LH_CACHED_TEXT_BYTES);
}

static bool parse_number(const char **text, uint32_t *number) {
    uint32_t digits = 0;
    for (*number = 0; **text >= '0' && **text <= '9' && digits < 4; digits++)
        *number = *number * 10 + (uint32_t)(*(*text)++ - '0');
    return digits > 0 && *number < LH_CACHED_LAYERS_MAX;
}

bool lh_cached_layers_parse(const char *text, lh_cached_layers *cached) {
    uint32_t first, last, least = 0;
    cached->run_count = 0;
    while (*text) {
        if (cached->run_count == LH_CACHED_RUNS_MAX || !parse_number(&text, &first) ||
            *text++ != '-' || !parse_number(&text, &last) || first < least || last < first)
            return false;
        cached->runs[cached->run_count++] = (lh_cached_run){first, last + 1};
        least = last + 2;
        if (*text == ',' && text[1] != '\0')
            text++;
        else if (*text)
            return false;
    }
    return true;
}
