/* The few that must be escaped are alternatives beside the class of all others. */
#include "gateway/constrain/json_character.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTROLS 0x20u
#define ESCAPED  (CONTROLS + 2)

/* Characters as they are lie between the escaped ones. */
static const lh_character_range plain[] = {
    {CONTROLS, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10ffff}};

#define PLAIN (sizeof plain / sizeof *plain)

static bool has(const lh_character_range *ranges, size_t count, uint32_t character) {
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return true;
    return false;
}

static lh_grammar_node escape(lh_grammar *grammar, uint32_t character) {
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = character ? strchr(named, (int)character) : NULL;
    char text[8];
    if (found)
        snprintf(text, sizeof text, "\\%c", letters[found - named]);
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)character & 0xff);
    return lh_grammar_text(grammar, text);
}

/* What the range has in common with each of the plain ones; how many those are. */
static size_t cut(lh_character_range range, lh_character_range *pieces) {
    size_t count = 0;
    for (size_t i = 0; i < PLAIN; i++) {
        lh_character_range piece = {range.first > plain[i].first ? range.first : plain[i].first,
                                    range.last < plain[i].last ? range.last : plain[i].last};
        if (piece.first <= piece.last)
            pieces[count++] = piece;
    }
    return count;
}

lh_grammar_node lh_json_characters(lh_grammar *grammar, const lh_character_range *ranges,
                                   size_t count) {
    lh_grammar_node ways[ESCAPED + 1];
    size_t pieces = 0, way = 0;
    lh_character_range *list = calloc(PLAIN * count + 1, sizeof *list);
    if (!list)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a class");
    for (size_t i = 0; i < count; i++)
        pieces += cut(ranges[i], list + pieces);
    if (pieces > 0)
        ways[way++] = lh_grammar_class(grammar, list, pieces, false);
    free(list);
    for (uint32_t c = 0; c <= '\\'; c++)
        if ((c < CONTROLS || c == '"' || c == '\\') && has(ranges, count, c))
            ways[way++] = escape(grammar, c);
    return way == 1 ? ways[0] : lh_grammar_choice(grammar, ways, way);
}
