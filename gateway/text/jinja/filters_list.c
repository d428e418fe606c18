/* Filters over many items that need them all. */
#include "gateway/text/jinja/filters.h"

#include "gateway/text/jinja/attributes.h"
#include "gateway/text/jinja/casing.h"
#include "gateway/text/jinja/iteration.h"
#include "gateway/text/jinja/methods.h"
#include "gateway/text/jinja/operators.h"
#include "gateway/text/jinja/print.h"
#include "gateway/text/jinja/sorting.h"

static bool is_given(jinja_value value) {
    return value.kind != JINJA_MISSING && value.kind != JINJA_NONE;
}

static bool is_on(jinja_value value) {
    return is_given(value) && jinja_is_true(value);
}

/* What an item is sorted by. */
static jinja_value key_of(jinja_work *work, jinja_value item, jinja_value path,
                          bool is_case_sensitive, jinja_value otherwise) {
    jinja_value key = jinja_get_path(work, item, path, otherwise);
    if (key.kind == JINJA_STRING && !is_case_sensitive)
        key = jinja_string(work, jinja_lower(work, *key.text));
    return key;
}

/* "age,name" makes a list of keys. */
static jinja_value keys_of(jinja_work *work, jinja_value item, jinja_value paths,
                           bool is_case_sensitive) {
    jinja_sequence *keys = jinja_sequence_new(work, 1);
    jinja_value missing = {.kind = JINJA_MISSING};
    if (paths.kind != JINJA_STRING) {
        jinja_sequence_push(work, keys, key_of(work, item, paths, is_case_sensitive, missing));
        return jinja_list(keys);
    }
    jinja_text rest = *paths.text;
    for (ssize_t comma = 0; comma >= 0;) {
        comma = jinja_text_find(work, rest, jinja_text_literal(","));
        jinja_text path = comma < 0 ? rest : jinja_text_cut(rest, 0, (size_t)comma);
        jinja_sequence_push(
            work, keys, key_of(work, item, jinja_string(work, path), is_case_sensitive, missing));
        if (comma >= 0)
            rest = jinja_text_cut(rest, (size_t)comma + 1, rest.length);
    }
    return jinja_list(keys);
}

static jinja_value sort(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_sequence *items = jinja_collect(work, self);
    jinja_sequence *keys = jinja_sequence_new(work, items->count);
    for (size_t i = 0; i < items->count; i++)
        jinja_sequence_push(work, keys,
                            keys_of(work, items->items[i], call->given[2], is_on(call->given[1])));
    jinja_sort(work, items->items, keys->items, items->count, is_on(call->given[0]));
    return jinja_list(items);
}

static jinja_value dictsort(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text by =
        call->given[1].kind == JINJA_STRING ? *call->given[1].text : jinja_text_literal("key");
    if ((call->given[1].kind != JINJA_MISSING && call->given[1].kind != JINJA_STRING) ||
        (!jinja_text_is(by, "key") && !jinja_text_is(by, "value")))
        jinja_fail(work, LH_ERR_INVALID, "dictsort sorts by \"key\" or by \"value\"");
    jinja_need_defined(work, self);
    if (self.kind != JINJA_DICT)
        jinja_fail(work, LH_ERR_INVALID, "dictsort takes a dict, not '%s'", jinja_type_name(self));
    jinja_sequence *items = jinja_collect(work, jinja_dict_items(work, self.dict));
    jinja_sequence *keys = jinja_sequence_new(work, items->count);
    jinja_value missing = {.kind = JINJA_MISSING};
    for (size_t i = 0; i < items->count; i++)
        jinja_sequence_push(work, keys,
                            key_of(work,
                                   items->items[i].sequence->items[jinja_text_is(by, "value")],
                                   missing, is_on(call->given[0]), missing));
    jinja_sort(work, items->items, keys->items, items->count, is_on(call->given[2]));
    return jinja_list(items);
}

static jinja_value group_by(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value path = call->given[0], otherwise = call->given[1];
    bool is_case_sensitive = is_on(call->given[2]);
    jinja_sequence *items = jinja_collect(work, self);
    jinja_sequence *keys = jinja_sequence_new(work, items->count);
    for (size_t i = 0; i < items->count; i++)
        jinja_sequence_push(work, keys,
                            key_of(work, items->items[i], path, is_case_sensitive, otherwise));
    jinja_sort(work, items->items, keys->items, items->count, false);
    jinja_sequence *groups = jinja_sequence_new(work, 4), *members = NULL;
    for (size_t i = 0; i < items->count; i++) {
        if (i == 0 || !jinja_equal(work, keys->items[i - 1], keys->items[i])) {
            members = jinja_sequence_new(work, 4);
            jinja_value grouper = jinja_get_path(work, items->items[i], path, otherwise);
            jinja_sequence_push(work, groups, jinja_pair(work, grouper, jinja_list(members)));
        }
        jinja_sequence_push(work, members, items->items[i]);
    }
    return jinja_list(groups);
}

static jinja_value extreme(jinja_work *work, jinja_value self, const jinja_call *call, int wanted) {
    jinja_iterator *iterator = jinja_iterate(work, self);
    jinja_value item, best = jinja_undefined("No aggregated item, sequence was empty."), best_key;
    jinja_value missing = {.kind = JINJA_MISSING};
    for (bool is_first = true; jinja_next(work, iterator, &item); is_first = false) {
        jinja_value key = key_of(work, item, call->given[1], is_on(call->given[0]), missing);
        if (is_first || jinja_compare(work, key, best_key) == wanted) {
            best = item;
            best_key = key;
        }
    }
    return best;
}

static jinja_value min(jinja_work *work, jinja_value self, const jinja_call *call) {
    return extreme(work, self, call, -1);
}

static jinja_value max(jinja_work *work, jinja_value self, const jinja_call *call) {
    return extreme(work, self, call, 1);
}

static jinja_value sum(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value total = call->given[1].kind == JINJA_MISSING ? jinja_int(0) : call->given[1];
    jinja_value item, missing = {.kind = JINJA_MISSING};
    if (total.kind == JINJA_STRING)
        jinja_fail(work, LH_ERR_INVALID, "sum() cannot add strings");
    jinja_iterator *iterator = jinja_iterate(work, self);
    while (jinja_next(work, iterator, &item))
        total = jinja_operate(work, JINJA_ADD, total,
                              jinja_get_path(work, item, call->given[0], missing));
    return total;
}

static jinja_value join(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_text mark = jinja_print(work, call->given[0]);
    jinja_iterator *iterator = jinja_iterate(work, self);
    jinja_builder out = {.work = work};
    jinja_value item, missing = {.kind = JINJA_MISSING};
    for (bool is_first = true; jinja_next(work, iterator, &item); is_first = false) {
        if (!is_first)
            jinja_builder_add(&out, mark);
        jinja_print_into(&out, jinja_get_path(work, item, call->given[1], missing));
    }
    return jinja_string(work, jinja_builder_text(&out));
}

static jinja_value first(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_value item = jinja_undefined("No first item, sequence was empty.");
    jinja_next(work, jinja_iterate(work, self), &item);
    return item;
}

static jinja_value last(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    jinja_value item = jinja_undefined("No last item, sequence was empty.");
    bool has_items = jinja_is_sequence(self) || self.kind == JINJA_RANGE;
    if (has_items && jinja_length(work, self))
        return jinja_item_at(work, self, jinja_length(work, self) - 1);
    jinja_next(work, jinja_iterate_backwards(work, self), &item);
    return item;
}

static jinja_value reverse(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    if (self.kind == JINJA_STRING)
        return jinja_slice(work, self, jinja_none(), jinja_none(), jinja_int(-1));
    if (self.kind == JINJA_ITERATOR)
        return jinja_list(jinja_collect(work, jinja_iterator_value(jinja_iterate_backwards(
                                                  work, jinja_list(jinja_collect(work, self))))));
    return jinja_iterator_value(jinja_iterate_backwards(work, self));
}

static jinja_value list(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return jinja_list(jinja_collect(work, self));
}

static jinja_value length(jinja_work *work, jinja_value self, const jinja_call *call) {
    (void)call;
    return jinja_int((int64_t)jinja_length(work, self));
}

static jinja_value attr(jinja_work *work, jinja_value self, const jinja_call *call) {
    jinja_value found;
    jinja_text name = jinja_text_given(work, call->given[0], "an attribute's name");
    jinja_need_defined(work, self);
    if (jinja_find_attribute(work, self, name, &found))
        return found;
    return jinja_undefined("there is no such attribute");
}

static jinja_value default_(jinja_work *work, jinja_value self, const jinja_call *call) {
    bool replaces = self.kind == JINJA_UNDEFINED || (is_on(call->given[1]) && !jinja_is_true(self));
    if (!replaces)
        return self;
    return call->given[0].kind == JINJA_MISSING ? jinja_string_literal(work, "") : call->given[0];
}

const jinja_entry_point jinja_list_filters[] = {
    {"attr", attr, "name", 1},
    {"count", length, "", 0},
    {"d", default_, "default_value,boolean", 0},
    {"default", default_, "default_value,boolean", 0},
    {"dictsort", dictsort, "case_sensitive,by,reverse", 0},
    {"first", first, "", 0},
    {"groupby", group_by, "attribute,default,case_sensitive", 1},
    {"join", join, "d,attribute", 0},
    {"last", last, "", 0},
    {"length", length, "", 0},
    {"list", list, "", 0},
    {"max", max, "case_sensitive,attribute", 0},
    {"min", min, "case_sensitive,attribute", 0},
    {"reverse", reverse, "", 0},
    {"sort", sort, "reverse,case_sensitive,attribute", 0},
    {"sum", sum, "attribute,start", 0},
    {NULL, NULL, NULL, 0},
};
