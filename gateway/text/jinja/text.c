/* Bytes of one origin, which is the rule, need no list of origins. */
#include "gateway/text/jinja/text.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/unicode.h"

#include <assert.h>
#include <string.h>

jinja_text jinja_text_of(const char *bytes, size_t length, jinja_origin origin) {
    return (jinja_text){bytes ? bytes : "", length, NULL, (uint8_t)origin};
}

jinja_text jinja_text_literal(const char *literal) {
    return jinja_text_of(literal, strlen(literal), JINJA_OF_TEMPLATE);
}

bool jinja_text_is(jinja_text text, const char *literal) {
    return jinja_text_equal(text, jinja_text_literal(literal));
}

bool jinja_text_equal(jinja_text a, jinja_text b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

int jinja_text_compare(jinja_text a, jinja_text b) {
    size_t length = a.length < b.length ? a.length : b.length;
    int order = length ? memcmp(a.bytes, b.bytes, length) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

jinja_text jinja_text_cut(jinja_text text, size_t begin, size_t end) {
    assert(begin <= end && end <= text.length);
    text.bytes += begin;
    text.length = end - begin;
    if (text.origins)
        text.origins += begin;
    return text;
}

size_t jinja_text_count(jinja_work *work, jinja_text text) {
    jinja_step_bytes(work, text.length);
    return text.length ? lh_utf8_count(text.bytes, text.length) : 0;
}

size_t jinja_text_at(jinja_work *work, jinja_text text, size_t index) {
    size_t at = 0;
    while (index > 0 && at < text.length) {
        at++;
        while (at < text.length && ((uint8_t)text.bytes[at] & 0xC0) == 0x80)
            at++;
        index--;
    }
    jinja_step_bytes(work, at);
    return at;
}

/* memmem's worst case beside a copy of the bytes. */
#define FINDING 4

ssize_t jinja_text_find(jinja_work *work, jinja_text text, jinja_text part) {
    if (part.length == 0)
        return 0;
    if (part.length > text.length)
        return -1;
    const char *found = memmem(text.bytes, text.length, part.bytes, part.length);
    jinja_step_bytes(work, (found ? (size_t)(found - text.bytes) : text.length) * FINDING);
    return found ? found - text.bytes : -1;
}

ssize_t jinja_text_find_last(jinja_work *work, jinja_text text, jinja_text part) {
    if (part.length > text.length)
        return -1;
    for (size_t at = text.length - part.length + 1; at-- > 0;) {
        jinja_step_bytes(work, part.length + 2 * JINJA_BYTES_PER_STEP);
        if (part.length == 0 || memcmp(text.bytes + at, part.bytes, part.length) == 0)
            return (ssize_t)at;
    }
    return -1;
}

static bool is_in(uint32_t character, const jinja_text *set) {
    if (!set)
        return jinja_is_space(character);
    const char *at = set->bytes, *end = set->bytes + set->length;
    while (at < end)
        if (lh_utf8_decode(&at) == character)
            return true;
    return false;
}

/* For each character of the text. */
static uint64_t strip_steps(const jinja_text *set) {
    return set ? 1 + set->length / 8 : 1;
}

jinja_text jinja_text_strip(jinja_work *work, jinja_text text, const jinja_text *set, bool left,
                            bool right) {
    size_t begin = 0, end = text.length;
    while (left && begin < end) {
        const char *next = text.bytes + begin;
        if (!is_in(lh_utf8_decode(&next), set))
            break;
        begin = (size_t)(next - text.bytes);
        jinja_step(work, strip_steps(set));
    }
    while (right && begin < end) {
        size_t last = end - 1;
        while (last > begin && ((uint8_t)text.bytes[last] & 0xC0) == 0x80)
            last--;
        const char *next = text.bytes + last;
        if (!is_in(lh_utf8_decode(&next), set))
            break;
        end = last;
        jinja_step(work, strip_steps(set));
    }
    return jinja_text_cut(text, begin, end);
}

/* Bytes: shorter ones are copied as fast. */
#define WORTH_GOING_ON 512

/* Room for `more` bytes, of origins too where the bytes are not of one. */
static void reserve(jinja_builder *builder, size_t more, bool is_mixed) {
    size_t capacity = builder->capacity;
    if (builder->limit && more > builder->limit - builder->length)
        jinja_fail(builder->work, LH_ERR_LIMIT, "its output has more than %zu bytes",
                   builder->limit);
    if (more > builder->capacity - builder->length) {
        size_t wanted = builder->length + more < 64 ? 64 : builder->length + more;
        builder->bytes =
            jinja_grow(builder->work, builder->bytes, builder->length, &capacity, wanted, 1);
        if (builder->origins) {
            uint8_t *origins = jinja_allocate_array(builder->work, capacity, 1);
            memcpy(origins, builder->origins, builder->length);
            builder->origins = origins;
        }
        builder->capacity = capacity;
    }
    if (is_mixed && !builder->origins) {
        builder->origins = jinja_allocate_array(builder->work, builder->capacity, 1);
        memset(builder->origins, builder->origin, builder->length);
    }
}

void jinja_builder_add(jinja_builder *builder, jinja_text text) {
    if (text.length == 0)
        return;
    jinja_step_bytes(builder->work, text.length);
    if (builder->length == 0 && !builder->origins)
        builder->origin = text.origin;
    reserve(builder, text.length, text.origins || text.origin != builder->origin);
    memcpy(builder->bytes + builder->length, text.bytes, text.length);
    if (builder->origins && text.origins)
        memcpy(builder->origins + builder->length, text.origins, text.length);
    else if (builder->origins)
        memset(builder->origins + builder->length, text.origin, text.length);
    builder->length += text.length;
}

void jinja_builder_add_literal(jinja_builder *builder, const char *literal) {
    jinja_builder_add(builder, jinja_text_literal(literal));
}

void jinja_builder_add_character(jinja_builder *builder, uint32_t character, jinja_origin origin) {
    char bytes[4];
    jinja_builder_add(builder, jinja_text_of(bytes, jinja_utf8_encode(character, bytes), origin));
}

void jinja_builder_add_times(jinja_builder *builder, jinja_text text, size_t times) {
    if (text.length == 0)
        return;
    jinja_step(builder->work, times);
    for (size_t i = 0; i < times; i++)
        jinja_builder_add(builder, text);
}

jinja_text jinja_builder_text(const jinja_builder *builder) {
    jinja_text text = jinja_text_of(builder->bytes, builder->length, builder->origin);
    text.origins = builder->origins;
    return text;
}

/* The tail that the text ends with, or NULL. */
static jinja_tail *tail_of(jinja_work *work, jinja_text text) {
    for (size_t i = 0; text.length && i < JINJA_TAILS; i++) {
        jinja_tail *tail = &work->tails[i];
        if (tail->end == text.bytes + text.length &&
            (!text.origins || tail->origins_end == text.origins + text.length))
            return tail;
    }
    return NULL;
}

jinja_builder jinja_builder_after(jinja_work *work, jinja_text text) {
    jinja_builder out = {.work = work};
    jinja_tail *tail = tail_of(work, text);
    if (!tail) {
        jinja_builder_add(&out, text);
        return out;
    }
    out.bytes = tail->end - text.length;
    out.origins = text.origins ? tail->origins_end - text.length : NULL;
    out.origin = text.origin;
    out.length = text.length;
    out.capacity = text.length + tail->room;
    *tail = (jinja_tail){0};
    return out;
}

jinja_text jinja_builder_close(jinja_builder *builder) {
    jinja_work *work = builder->work;
    jinja_text text = jinja_builder_text(builder);
    if (text.length < WORTH_GOING_ON)
        return text;
    size_t free = 0;
    while (free < JINJA_TAILS && work->tails[free].end)
        free++;
    if (free == JINJA_TAILS)
        free = work->oldest_tail++ % JINJA_TAILS;
    work->tails[free] = (jinja_tail){builder->bytes + text.length,
                                     builder->origins ? builder->origins + text.length : NULL,
                                     builder->capacity - text.length};
    return text;
}

jinja_text jinja_text_join(jinja_work *work, jinja_text a, jinja_text b) {
    if (a.length == 0 || b.length == 0)
        return a.length == 0 ? b : a;
    jinja_builder out = jinja_builder_after(work, a);
    jinja_builder_add(&out, b);
    return jinja_builder_close(&out);
}

static jinja_text put_between(jinja_work *work, jinja_text text, jinja_text new, int64_t most) {
    jinja_builder out = {.work = work};
    const char *at = text.bytes, *end = text.bytes + text.length;
    for (int64_t i = 0; i != most; i++) {
        jinja_builder_add(&out, new);
        if (at == end)
            return jinja_builder_text(&out);
        const char *begin = at;
        lh_utf8_decode(&at);
        jinja_builder_add(
            &out, jinja_text_cut(text, (size_t)(begin - text.bytes), (size_t)(at - text.bytes)));
        jinja_step(work, 1);
    }
    jinja_builder_add(&out, jinja_text_cut(text, (size_t)(at - text.bytes), text.length));
    return jinja_builder_text(&out);
}

jinja_text jinja_text_replace(jinja_work *work, jinja_text text, jinja_text old, jinja_text new,
                              int64_t most) {
    if (old.length == 0)
        return put_between(work, text, new, most);
    jinja_builder out = {.work = work};
    size_t at = 0;
    for (int64_t i = 0; i != most; i++) {
        ssize_t found = jinja_text_find(work, jinja_text_cut(text, at, text.length), old);
        if (found < 0)
            break;
        jinja_step(work, 1);
        jinja_builder_add(&out, jinja_text_cut(text, at, at + (size_t)found));
        jinja_builder_add(&out, new);
        at += (size_t)found + old.length;
    }
    if (at == 0)
        return text;
    jinja_builder_add(&out, jinja_text_cut(text, at, text.length));
    return jinja_builder_text(&out);
}
