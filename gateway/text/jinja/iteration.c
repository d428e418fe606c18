/* An iterator is a function and a place; a string goes by characters, a dict by keys. */
#include "gateway/text/jinja/iteration.h"

#include "common/base/utf8.h"

static bool next_character(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    const jinja_text *text = iterator->source.text;
    if (iterator->at >= text->length)
        return false;
    const char *at = text->bytes + iterator->at;
    lh_utf8_decode(&at);
    size_t end = (size_t)(at - text->bytes);
    *value = jinja_string(work, jinja_text_cut(*text, iterator->at, end));
    iterator->at = end;
    return true;
}

static bool next_item(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    (void)work;
    const jinja_sequence *sequence = iterator->source.sequence;
    if (iterator->at >= sequence->count)
        return false;
    *value = sequence->items[iterator->at++];
    return true;
}

static int64_t in_range(const jinja_range *range, size_t index) {
    return range->start + range->step * (int64_t)index;
}

static bool next_in_range(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    (void)work;
    const jinja_range *range = iterator->source.range;
    if (iterator->at >= range->count)
        return false;
    *value = jinja_int(in_range(range, iterator->at++));
    return true;
}

static bool next_key(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    (void)work;
    const jinja_dict *dict = iterator->source.dict;
    if (iterator->at >= dict->count)
        return false;
    *value = dict->entries[iterator->at++].key;
    return true;
}

static bool next_of_nothing(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    (void)work;
    (void)iterator;
    (void)value;
    return false;
}

bool jinja_is_iterable(jinja_value value) {
    return value.kind == JINJA_UNDEFINED || value.kind == JINJA_STRING ||
           jinja_is_sequence(value) || value.kind == JINJA_RANGE || value.kind == JINJA_DICT ||
           value.kind == JINJA_ITERATOR;
}

jinja_iterator *jinja_iterate(jinja_work *work, jinja_value value) {
    if (value.kind == JINJA_ITERATOR)
        return value.iterator;
    if (!jinja_is_iterable(value))
        jinja_fail(work, LH_ERR_INVALID, "'%s' is not iterable", jinja_type_name(value));
    jinja_iterator *made = jinja_allocate(work, sizeof *made);
    *made = (jinja_iterator){.name = "iterator", .source = value, .next = next_of_nothing};
    if (value.kind == JINJA_STRING)
        made->next = next_character;
    else if (jinja_is_sequence(value))
        made->next = next_item;
    else if (value.kind == JINJA_RANGE)
        made->next = next_in_range;
    else if (value.kind == JINJA_DICT)
        made->next = next_key;
    return made;
}

bool jinja_next(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    jinja_step(work, 1);
    jinja_enter(work); /* iterators may be over iterators, over iterators ... */
    bool is_there = iterator->next(work, iterator, value);
    jinja_leave(work);
    return is_there;
}

jinja_sequence *jinja_collect(jinja_work *work, jinja_value value) {
    jinja_iterator *iterator = jinja_iterate(work, value);
    jinja_sequence *all =
        jinja_sequence_new(work, jinja_is_sequence(value) ? value.sequence->count : 0);
    jinja_value item;
    while (jinja_next(work, iterator, &item))
        jinja_sequence_push(work, all, item);
    return all;
}

jinja_iterator *jinja_iterate_backwards(jinja_work *work, jinja_value value) {
    if (value.kind == JINJA_ITERATOR || value.kind == JINJA_OBJECT)
        jinja_fail(work, LH_ERR_INVALID, "'%s' is not reversible", jinja_type_name(value));
    jinja_sequence *all = jinja_collect(work, value);
    for (size_t i = 0; i < all->count / 2; i++) {
        jinja_value item = all->items[i];
        all->items[i] = all->items[all->count - 1 - i];
        all->items[all->count - 1 - i] = item;
    }
    jinja_iterator *made = jinja_iterate(work, jinja_list(all));
    made->name = "list_reverseiterator";
    return made;
}

bool jinja_has_length(jinja_value value) {
    return jinja_is_iterable(value) && value.kind != JINJA_ITERATOR;
}

size_t jinja_length(jinja_work *work, jinja_value value) {
    if (!jinja_has_length(value))
        jinja_fail(work, LH_ERR_INVALID, "'%s' has no length", jinja_type_name(value));
    if (value.kind == JINJA_STRING)
        return jinja_text_count(work, *value.text);
    if (value.kind == JINJA_UNDEFINED)
        return 0;
    return value.kind == JINJA_DICT    ? value.dict->count
           : value.kind == JINJA_RANGE ? value.range->count
                                       : value.sequence->count;
}

jinja_value jinja_item_at(jinja_work *work, jinja_value value, size_t index) {
    if (value.kind == JINJA_RANGE)
        return jinja_int(in_range(value.range, index));
    if (value.kind != JINJA_STRING)
        return value.sequence->items[index];
    size_t begin = jinja_text_at(work, *value.text, index);
    jinja_text rest = jinja_text_cut(*value.text, begin, value.text->length);
    return jinja_string(work, jinja_text_cut(rest, 0, jinja_text_at(work, rest, 1)));
}

bool jinja_contains(jinja_work *work, jinja_value whole, jinja_value part) {
    if (whole.kind == JINJA_STRING && part.kind == JINJA_STRING)
        return jinja_text_find(work, *whole.text, *part.text) >= 0;
    if (whole.kind == JINJA_STRING)
        jinja_fail(work, LH_ERR_INVALID, "'in <string>' requires a string on its left, not '%s'",
                   jinja_type_name(part));
    if (whole.kind == JINJA_DICT)
        return jinja_dict_get(work, whole.dict, part) != NULL;
    jinja_iterator *iterator = jinja_iterate(work, whole);
    jinja_value item;
    while (jinja_next(work, iterator, &item))
        if (jinja_equal(work, item, part))
            return true;
    return false;
}
