/* Lists and dicts; strings have a file of their own. */
#include "gateway/text/jinja/methods.h"

#include "gateway/text/jinja/iteration.h"

static jinja_value view_of(jinja_work *work, const jinja_dict *dict, const char *view,
                           bool with_keys, bool with_values) {
    jinja_sequence *items = jinja_sequence_new(work, dict->count);
    items->view = view;
    for (size_t i = 0; i < dict->count; i++) {
        const jinja_entry *entry = &dict->entries[i];
        jinja_sequence_push(work, items,
                            with_keys && with_values ? jinja_pair(work, entry->key, entry->value)
                            : with_keys              ? entry->key
                                                     : entry->value);
    }
    return (jinja_value){.kind = JINJA_VIEW, .sequence = items};
}

jinja_value jinja_dict_items(jinja_work *work, const jinja_dict *dict) {
    return view_of(work, dict, "dict_items", true, true);
}

static jinja_value items(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return jinja_dict_items(work, self.dict);
}

static jinja_value keys(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return view_of(work, self.dict, "dict_keys", true, false);
}

static jinja_value values(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return view_of(work, self.dict, "dict_values", false, true);
}

static jinja_value get(jinja_work *work, jinja_value self, const jinja_call *call) {
    const jinja_value *found = jinja_dict_get(work, self.dict, call->given[0]);
    if (found)
        return *found;
    return call->given[1].kind == JINJA_MISSING ? jinja_none() : call->given[1];
}

static jinja_value copy(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)work;
    (void)call;
    return self;
}

static jinja_value count(jinja_work *work, jinja_value self, const jinja_call *call) {
    int64_t found = 0;
    for (size_t i = 0; i < self.sequence->count; i++)
        found += jinja_equal(work, self.sequence->items[i], call->given[0]);
    return jinja_int(found);
}

static int64_t bound(jinja_work *work, jinja_value given, int64_t otherwise, int64_t length) {
    int64_t at = jinja_integer_given(work, given, otherwise);
    return at >= 0 ? at : at + length < 0 ? 0 : at + length;
}

static jinja_value index_of(jinja_work *work, jinja_value self, const jinja_call *call) {
    int64_t length = (int64_t)self.sequence->count;
    int64_t begin = bound(work, call->given[1], 0, length);
    int64_t end = bound(work, call->given[2], length, length);
    for (int64_t i = begin; i < end && i < length; i++)
        if (jinja_equal(work, self.sequence->items[i], call->given[0]))
            return jinja_int(i);
    jinja_fail(work, LH_ERR_INVALID, "the value is not in the %s", jinja_type_name(self));
}

static const jinja_entry_point dict_methods[] = {
    {"get", get, "_,_", 1},    {"items", items, "", 0},  {"keys", keys, "", 0},
    {"values", values, "", 0}, {"copy", copy, "", 0},    {"clear", NULL, "", 0},
    {"pop", NULL, "", 0},      {"popitem", NULL, "", 0}, {"setdefault", NULL, "", 0},
    {"update", NULL, "", 0},   {NULL, NULL, NULL, 0},
};

static const jinja_entry_point list_methods[] = {
    {"count", count, "_", 1}, {"index", index_of, "_,_,_", 1},
    {"copy", copy, "", 0},    {"append", NULL, "", 0},
    {"clear", NULL, "", 0},   {"extend", NULL, "", 0},
    {"insert", NULL, "", 0},  {"pop", NULL, "", 0},
    {"remove", NULL, "", 0},  {"reverse", NULL, "", 0},
    {"sort", NULL, "", 0},    {NULL, NULL, NULL, 0},
};

static const jinja_entry_point tuple_methods[] = {
    {"count", count, "_", 1},
    {"index", index_of, "_,_,_", 1},
    {NULL, NULL, NULL, 0},
};

const jinja_entry_point *jinja_method_find(jinja_value value, jinja_text name) {
    switch (value.kind) {
    case JINJA_STRING:
        return jinja_entry_point_find(jinja_text_methods, name);
    case JINJA_DICT:
        return jinja_entry_point_find(dict_methods, name);
    case JINJA_LIST:
        return jinja_entry_point_find(list_methods, name);
    case JINJA_TUPLE:
        return jinja_entry_point_find(tuple_methods, name);
    default:
        return NULL;
    }
}
