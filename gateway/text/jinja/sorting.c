/* A merge sort over indices. */
#include "gateway/text/jinja/sorting.h"

#include <string.h>

typedef struct sorting {
    jinja_work *work;
    const jinja_value *keys;
    bool is_reverse;
    size_t *order, *spare;
} sorting;

/* May what stands right go before what stands left of it? */
static bool goes_first(const sorting *s, size_t right, size_t left) {
    int order = jinja_compare(s->work, s->keys[right], s->keys[left]);
    return s->is_reverse ? order == 1 : order == -1;
}

static void merge(sorting *s, size_t begin, size_t middle, size_t end) {
    memcpy(s->spare + begin, s->order + begin, (end - begin) * sizeof *s->order);
    size_t left = begin, right = middle;
    for (size_t i = begin; i < end; i++)
        if (left < middle && (right == end || !goes_first(s, s->spare[right], s->spare[left])))
            s->order[i] = s->spare[left++];
        else
            s->order[i] = s->spare[right++];
}

static void sort_part(sorting *s, size_t begin, size_t end) {
    if (end - begin < 2)
        return;
    size_t middle = begin + (end - begin) / 2;
    sort_part(s, begin, middle);
    sort_part(s, middle, end);
    merge(s, begin, middle, end);
}

static void reorder(sorting *s, jinja_value *values, size_t count, jinja_value *copy) {
    memcpy(copy, values, count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = copy[s->order[i]];
}

void jinja_sort(jinja_work *work, jinja_value *items, jinja_value *keys, size_t count,
                bool is_reverse) {
    if (count < 2)
        return;
    sorting s = {work, keys, is_reverse, jinja_allocate_array(work, count, sizeof(size_t)),
                 jinja_allocate_array(work, count, sizeof(size_t))};
    for (size_t i = 0; i < count; i++)
        s.order[i] = i;
    sort_part(&s, 0, count);
    jinja_value *copy = jinja_allocate_array(work, count, sizeof *copy);
    reorder(&s, keys, count, copy);
    if (items != keys)
        reorder(&s, items, count, copy);
}

jinja_sequence *jinja_collect_keys(jinja_work *work, const jinja_dict *dict) {
    jinja_sequence *keys = jinja_sequence_new(work, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        jinja_sequence_push(work, keys, dict->entries[i].key);
    return keys;
}
