/* Filters over many items that give one after the other, when they are asked for it: Python's
 * generators. */
#include "gateway/text/jinja/filters.h"

#include "gateway/text/jinja/attributes.h"
#include "gateway/text/jinja/casing.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/methods.h"
#include "gateway/text/jinja/tests.h"

/* What a generator goes over, and what it was told; it begins when it is first asked. */
typedef struct generator {
    jinja_iterator iterator;
    jinja_iterator *source;
    jinja_arguments arguments; /* of the filter or test that is called for each item */
    jinja_text name;           /* of it */
    jinja_value path, otherwise;
    bool has_name, has_path, keeps_true;
    jinja_dict *seen;
    int64_t size;
} generator;

static generator *start(jinja_work *work, jinja_value self, const jinja_call *call,
                        bool (*next)(jinja_work *, jinja_iterator *, jinja_value *)) {
    generator *made = jinja_allocate(work, sizeof *made);
    *made = (generator){.iterator = {.next = next, .name = "generator", .source = self}};
    if (call->all)
        made->arguments = *call->all;
    return made;
}

static jinja_value value_of(generator *made) {
    return jinja_iterator_value(&made->iterator);
}

static bool next_of_source(jinja_work *work, generator *self, jinja_value *value) {
    if (!self->source)
        self->source = jinja_iterate(work, self->iterator.source);
    return jinja_next(work, self->source, value);
}

static void drop_first_argument(jinja_arguments *arguments) {
    arguments->items++;
    arguments->count--;
}

/* ---- map ---- */

static void read_map(jinja_work *work, generator *self) {
    jinja_arguments *given = &self->arguments;
    const jinja_value *path = jinja_named_argument(given, "attribute");
    if (given->count == 0 && path) {
        const jinja_value *otherwise = jinja_named_argument(given, "default");
        self->path = *path;
        self->otherwise = otherwise ? *otherwise : jinja_none();
        self->has_path = true;
        if (given->named_count > 1u + (otherwise != NULL))
            jinja_fail(work, LH_ERR_INVALID, "map: an argument that it does not take");
        return;
    }
    if (given->count == 0)
        jinja_fail(work, LH_ERR_INVALID, "map requires a filter argument");
    self->name = jinja_text_given(work, given->items[0], "map's filter");
    self->has_name = true;
    drop_first_argument(given);
}

static bool next_mapped(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    generator *self = (generator *)iterator;
    if (!self->source && !jinja_is_true(iterator->source))
        return false;
    if (!self->has_path && !self->has_name)
        read_map(work, self);
    if (!next_of_source(work, self, value))
        return false;
    if (self->has_path) {
        *value = jinja_get_path(work, *value, self->path, self->otherwise);
        return true;
    }
    const jinja_entry_point *filter = jinja_filter_find(self->name);
    if (!filter)
        jinja_fail(work, LH_ERR_INVALID, "map: there is no filter '%.*s'",
                   (int)(self->name.length < 40 ? self->name.length : 40), self->name.bytes);
    *value = jinja_entry_point_call(work, filter, *value, &self->arguments);
    return true;
}

static jinja_value map(jinja_work *work, jinja_value self, const jinja_call *call) {
    return value_of(start(work, self, call, next_mapped));
}

/* ---- select, reject, selectattr, rejectattr ---- */

static void read_select(jinja_work *work, generator *self) {
    jinja_arguments *given = &self->arguments;
    if (self->has_path) {
        if (given->count == 0)
            jinja_fail(work, LH_ERR_INVALID, "the name of an attribute is missing");
        self->path = given->items[0];
        drop_first_argument(given);
    }
    self->has_name = given->count > 0;
    if (!self->has_name)
        return;
    self->name = jinja_text_given(work, given->items[0], "a test's name");
    drop_first_argument(given);
}

static bool suits(jinja_work *work, const generator *self, jinja_value item) {
    if (self->has_path)
        item = jinja_get_path(work, item, self->path, (jinja_value){.kind = JINJA_MISSING});
    if (!self->has_name)
        return jinja_is_true(item);
    return jinja_is_true(jinja_test(work, self->name, item, &self->arguments));
}

static bool next_selected(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    generator *self = (generator *)iterator;
    if (!self->source && !jinja_is_true(iterator->source))
        return false;
    if (!self->source)
        read_select(work, self);
    while (next_of_source(work, self, value))
        if (suits(work, self, *value) == self->keeps_true)
            return true;
    return false;
}

static jinja_value select_by(jinja_work *work, jinja_value self, const jinja_call *call,
                             bool has_path, bool keeps_true) {
    generator *made = start(work, self, call, next_selected);
    made->has_path = has_path;
    made->keeps_true = keeps_true;
    return value_of(made);
}

static jinja_value select_(jinja_work *work, jinja_value self, const jinja_call *call) {
    return select_by(work, self, call, false, true);
}

static jinja_value reject(jinja_work *work, jinja_value self, const jinja_call *call) {
    return select_by(work, self, call, false, false);
}

static jinja_value selectattr(jinja_work *work, jinja_value self, const jinja_call *call) {
    return select_by(work, self, call, true, true);
}

static jinja_value rejectattr(jinja_work *work, jinja_value self, const jinja_call *call) {
    return select_by(work, self, call, true, false);
}

/* ---- unique, items, batch, slice ---- */

static bool next_unique(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    generator *self = (generator *)iterator;
    while (next_of_source(work, self, value)) {
        jinja_value key =
            jinja_get_path(work, *value, self->path, (jinja_value){.kind = JINJA_MISSING});
        if (key.kind == JINJA_STRING && !self->keeps_true)
            key = jinja_string(work, jinja_lower(work, *key.text));
        if (jinja_dict_get(work, self->seen, key))
            continue;
        jinja_dict_set(work, self->seen, key, jinja_none());
        return true;
    }
    return false;
}

static jinja_value unique(jinja_work *work, jinja_value self, const jinja_call *call) {
    generator *made = start(work, self, call, next_unique);
    made->keeps_true = call->given[0].kind != JINJA_MISSING && jinja_is_true(call->given[0]);
    made->path = call->given[1];
    made->seen = jinja_dict_new(work);
    return value_of(made);
}

static bool next_pair(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    jinja_value source = iterator->source;
    if (source.kind == JINJA_UNDEFINED)
        return false;
    if (source.kind != JINJA_DICT)
        jinja_fail(work, LH_ERR_INVALID, "items takes a mapping, not '%s'",
                   jinja_type_name(source));
    if (iterator->at >= source.dict->count)
        return false;
    const jinja_entry *entry = &source.dict->entries[iterator->at++];
    *value = jinja_pair(work, entry->key, entry->value);
    return true;
}

static jinja_value items(jinja_work *work, jinja_value self, const jinja_call *call) {
    return value_of(start(work, self, call, next_pair));
}

static bool next_batch(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    generator *self = (generator *)iterator;
    jinja_sequence *batch = jinja_sequence_new(work, 4);
    jinja_value item;
    while (((int64_t)batch->count < self->size || self->size <= 0) &&
           next_of_source(work, self, &item)) {
        jinja_sequence_push(work, batch, item);
        if (self->size <= 0 && batch->count == 1 && self->size == 0)
            jinja_fail(work, LH_ERR_UNSUPPORTED, "batch: the size must be above zero");
    }
    if (batch->count == 0)
        return false;
    bool fills = self->otherwise.kind != JINJA_MISSING && self->otherwise.kind != JINJA_NONE;
    while (fills && (int64_t)batch->count < self->size)
        jinja_sequence_push(work, batch, self->otherwise);
    *value = jinja_list(batch);
    return true;
}

static jinja_value batch(jinja_work *work, jinja_value self, const jinja_call *call) {
    generator *made = start(work, self, call, next_batch);
    made->size = jinja_integer_given(work, call->given[0], 0);
    made->otherwise = call->given[1];
    return value_of(made);
}

static bool next_slice(jinja_work *work, jinja_iterator *iterator, jinja_value *value) {
    generator *self = (generator *)iterator;
    jinja_sequence *all = jinja_collect(work, iterator->source);
    int64_t slices = self->size, length = (int64_t)all->count, index = (int64_t)iterator->at++;
    if (slices == 0)
        jinja_fail(work, LH_ERR_INVALID, "slice: the number of slices is zero");
    if (index >= slices)
        return false;
    iterator->source = jinja_list(all);
    int64_t each = length / slices, with_more = length % slices;
    int64_t begin = index * each + (index < with_more ? index : with_more);
    int64_t end = begin + each + (index < with_more);
    jinja_sequence *part = jinja_sequence_new(work, (size_t)each + 1);
    for (int64_t i = begin; i < end; i++)
        jinja_sequence_push(work, part, all->items[i]);
    bool fills = self->otherwise.kind != JINJA_MISSING && self->otherwise.kind != JINJA_NONE;
    if (fills && index >= with_more)
        jinja_sequence_push(work, part, self->otherwise);
    *value = jinja_list(part);
    return true;
}

static jinja_value slice(jinja_work *work, jinja_value self, const jinja_call *call) {
    generator *made = start(work, self, call, next_slice);
    made->size = jinja_integer_given(work, call->given[0], 0);
    made->otherwise = call->given[1];
    return value_of(made);
}

const jinja_entry_point jinja_item_filters[] = {
    {"batch", batch, "linecount,fill_with", 1},
    {"items", items, "", 0},
    {"map", map, "*", 0},
    {"reject", reject, "*", 0},
    {"rejectattr", rejectattr, "*", 0},
    {"select", select_, "*", 0},
    {"selectattr", selectattr, "*", 0},
    {"slice", slice, "slices,fill_with", 1},
    {"unique", unique, "case_sensitive,attribute", 0},
    {NULL, NULL, NULL, 0},
};
