/* A string of Jinja: UTF-8, and for each byte whether the template wrote it or the conversation. A
 * piece keeps what its bytes had, so that after any filter a special token that a user typed is
 * still told from the template's own. Never changed after it was made: any thread. */
#pragma once

#include "gateway/text/jinja/work.h"

#include <sys/types.h>

typedef enum jinja_origin { JINJA_OF_TEMPLATE = 0, JINJA_OF_DATA = 1 } jinja_origin;

typedef struct jinja_text {
    const char *bytes;      /* never NULL */
    size_t length;          /* bytes */
    const uint8_t *origins; /* [length] of jinja_origin; NULL: all bytes have `origin` */
    uint8_t origin;
} jinja_text;

/* NULL and 0: the empty one. */
jinja_text jinja_text_of(const char *bytes, size_t length, jinja_origin origin);
/* A static string, as the template's. */
jinja_text jinja_text_literal(const char *literal);
bool jinja_text_is(jinja_text text, const char *literal);
bool jinja_text_equal(jinja_text a, jinja_text b);
/* As by code points, which UTF-8 sorts alike. */
int jinja_text_compare(jinja_text a, jinja_text b);
/* Bytes [begin, end). */
jinja_text jinja_text_cut(jinja_text text, size_t begin, size_t end);
/* Characters. */
size_t jinja_text_count(jinja_work *work, jinja_text text);
/* The byte at which character `index` begins; the length where there are fewer. */
size_t jinja_text_at(jinja_work *work, jinja_text text, size_t index);
/* The byte where `part` first (last) begins, within the text; -1: nowhere. */
ssize_t jinja_text_find(jinja_work *work, jinja_text text, jinja_text part);
ssize_t jinja_text_find_last(jinja_work *work, jinja_text text, jinja_text part);
/* White space, or the characters of `set`, taken away at either end. */
jinja_text jinja_text_strip(jinja_work *work, jinja_text text, const jinja_text *set, bool left,
                            bool right);

/* A text that grows at its end, in the arena. Begin with {.work = work}. */
typedef struct jinja_builder {
    jinja_work *work;
    char *bytes;
    uint8_t *origins; /* NULL while all bytes have `origin` */
    size_t length, capacity;
    size_t limit; /* bytes; 0: none of its own */
    uint8_t origin;
} jinja_builder;

void jinja_builder_add(jinja_builder *builder, jinja_text text);
void jinja_builder_add_literal(jinja_builder *builder, const char *literal);
void jinja_builder_add_character(jinja_builder *builder, uint32_t character, jinja_origin origin);
void jinja_builder_add_times(jinja_builder *builder, jinja_text text, size_t times);
/* What was added so far; good until the next addition. */
jinja_text jinja_builder_text(const jinja_builder *builder);
/* Begins with this text. Templates put a whole prompt together piece by piece, each time out of the
 * text so far: where that is the end of what jinja_builder_close gave, and nobody has gone on with
 * it yet, it is not copied, so that the whole takes linear time and memory. */
jinja_builder jinja_builder_after(jinja_work *work, jinja_text text);
/* The last use of a builder without a limit: what was added, which may be gone on with. */
jinja_text jinja_builder_close(jinja_builder *builder);
jinja_text jinja_text_join(jinja_work *work, jinja_text a, jinja_text b);
/* At most `most` of them (negative: all); an empty `old` stands between all characters. */
jinja_text jinja_text_replace(jinja_work *work, jinja_text text, jinja_text old, jinja_text new,
                              int64_t most);
