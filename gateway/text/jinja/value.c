/* Kinds, truth, equality, order. */
#include "gateway/text/jinja/value.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FEW_ENTRIES 8
/* To say what is missing. */
#define UNDEFINED_STEPS 5

jinja_value jinja_undefined(const char *why) {
    return (jinja_value){.kind = JINJA_UNDEFINED, .why = why};
}

jinja_value jinja_undefined_of(jinja_work *work, const char *format, ...) {
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *why = jinja_allocate(work, strlen(text) + 1);
    jinja_step(work, UNDEFINED_STEPS);
    return jinja_undefined(strcpy(why, text));
}

jinja_value jinja_none(void) {
    return (jinja_value){.kind = JINJA_NONE};
}

jinja_value jinja_bool(bool boolean) {
    return (jinja_value){.kind = JINJA_BOOL, .boolean = boolean};
}

jinja_value jinja_int(int64_t integer) {
    return (jinja_value){.kind = JINJA_INT, .integer = integer};
}

jinja_value jinja_float(double number) {
    return (jinja_value){.kind = JINJA_FLOAT, .number = number};
}

jinja_value jinja_string(jinja_work *work, jinja_text text) {
    jinja_text *copy = jinja_allocate(work, sizeof *copy);
    *copy = text;
    return (jinja_value){.kind = JINJA_STRING, .text = copy};
}

jinja_value jinja_string_literal(jinja_work *work, const char *literal) {
    return jinja_string(work, jinja_text_literal(literal));
}

jinja_value jinja_object_value(jinja_object *object) {
    return (jinja_value){.kind = JINJA_OBJECT, .object = object};
}

jinja_value jinja_iterator_value(jinja_iterator *iterator) {
    return (jinja_value){.kind = JINJA_ITERATOR, .iterator = iterator};
}

jinja_sequence *jinja_sequence_new(jinja_work *work, size_t capacity) {
    jinja_sequence *made = jinja_allocate(work, sizeof *made);
    *made = (jinja_sequence){.capacity = capacity};
    if (capacity)
        made->items = jinja_allocate_array(work, capacity, sizeof *made->items);
    return made;
}

void jinja_sequence_push(jinja_work *work, jinja_sequence *sequence, jinja_value value) {
    if (sequence->count == sequence->capacity)
        sequence->items = jinja_grow(work, sequence->items, sequence->count, &sequence->capacity, 4,
                                     sizeof *sequence->items);
    sequence->items[sequence->count++] = value;
    jinja_step(work, 1);
}

jinja_value jinja_list(const jinja_sequence *sequence) {
    return (jinja_value){.kind = JINJA_LIST, .sequence = sequence};
}

jinja_value jinja_tuple(const jinja_sequence *sequence) {
    return (jinja_value){.kind = JINJA_TUPLE, .sequence = sequence};
}

jinja_value jinja_pair(jinja_work *work, jinja_value first, jinja_value second) {
    jinja_sequence *pair = jinja_sequence_new(work, 2);
    jinja_sequence_push(work, pair, first);
    jinja_sequence_push(work, pair, second);
    return jinja_tuple(pair);
}

/* Numbers that are equal have equal hashes, whatever their types; FNV-1a for text. */
static uint64_t hash_of(jinja_work *work, jinja_value value) {
    uint64_t hash = 0xCBF29CE484222325U;
    if (value.kind == JINJA_STRING) {
        jinja_step_bytes(work, value.text->length);
        for (size_t i = 0; i < value.text->length; i++)
            hash = (hash ^ (uint8_t)value.text->bytes[i]) * 0x100000001B3U;
        return hash ^ hash >> 32;
    }
    if (jinja_is_number(value)) {
        double number = jinja_number(value) + 0.0; /* -0.0 is 0 */
        memcpy(&hash, &number, sizeof hash);
        return hash ^ hash >> 32;
    }
    if (value.kind == JINJA_TUPLE) {
        jinja_enter(work);
        for (size_t i = 0; i < value.sequence->count; i++)
            hash = (hash ^ hash_of(work, value.sequence->items[i])) * 0x100000001B3U;
        jinja_leave(work);
        return hash;
    }
    if (value.kind == JINJA_LIST || value.kind == JINJA_DICT || value.kind == JINJA_VIEW)
        jinja_fail(work, LH_ERR_INVALID, "unhashable type: '%s'", jinja_type_name(value));
    return (uint64_t)value.kind;
}

jinja_dict *jinja_dict_new(jinja_work *work) {
    jinja_dict *made = jinja_allocate(work, sizeof *made);
    *made = (jinja_dict){0};
    return made;
}

static bool is_entry(jinja_work *work, const jinja_entry *entry, uint64_t hash, jinja_value key) {
    jinja_step(work, 1);
    return entry->hash == hash && jinja_equal(work, entry->key, key);
}

static const jinja_entry *find_entry(jinja_work *work, const jinja_dict *dict, uint64_t hash,
                                     jinja_value key) {
    if (!dict->slots) {
        for (size_t i = 0; i < dict->count; i++)
            if (is_entry(work, &dict->entries[i], hash, key))
                return &dict->entries[i];
        return NULL;
    }
    size_t slot = hash & dict->slot_mask;
    for (; dict->slots[slot]; slot = (slot + 1) & dict->slot_mask)
        if (is_entry(work, &dict->entries[dict->slots[slot] - 1], hash, key))
            return &dict->entries[dict->slots[slot] - 1];
    return NULL;
}

static void fill_slots(jinja_work *work, jinja_dict *dict) {
    size_t slots = dict->capacity * 2;
    dict->slots = jinja_allocate_array(work, slots, sizeof *dict->slots);
    memset(dict->slots, 0, slots * sizeof *dict->slots);
    dict->slot_mask = slots - 1;
    for (size_t i = 0; i < dict->count; i++) {
        size_t slot = dict->entries[i].hash & dict->slot_mask;
        while (dict->slots[slot])
            slot = (slot + 1) & dict->slot_mask;
        dict->slots[slot] = (uint32_t)i + 1;
    }
}

void jinja_dict_set(jinja_work *work, jinja_dict *dict, jinja_value key, jinja_value value) {
    uint64_t hash = hash_of(work, key);
    const jinja_entry *found = find_entry(work, dict, hash, key);
    if (found) {
        dict->entries[found - dict->entries].value = value;
        return;
    }
    if (dict->count == dict->capacity)
        dict->entries = jinja_grow(work, dict->entries, dict->count, &dict->capacity, FEW_ENTRIES,
                                   sizeof *dict->entries);
    dict->entries[dict->count++] = (jinja_entry){hash, key, value};
    if (dict->count <= FEW_ENTRIES)
        return;
    if (!dict->slots || dict->capacity * 2 != dict->slot_mask + 1) {
        fill_slots(work, dict);
        return;
    }
    size_t slot = hash & dict->slot_mask;
    while (dict->slots[slot])
        slot = (slot + 1) & dict->slot_mask;
    dict->slots[slot] = (uint32_t)dict->count;
}

const jinja_value *jinja_dict_get(jinja_work *work, const jinja_dict *dict, jinja_value key) {
    const jinja_entry *found = find_entry(work, dict, hash_of(work, key), key);
    return found ? &found->value : NULL;
}

const jinja_value *jinja_dict_get_text(jinja_work *work, const jinja_dict *dict, jinja_text key) {
    return jinja_dict_get(work, dict, (jinja_value){.kind = JINJA_STRING, .text = &key});
}

jinja_value jinja_dict_value(const jinja_dict *dict) {
    return (jinja_value){.kind = JINJA_DICT, .dict = dict};
}

bool jinja_is_sequence(jinja_value value) {
    return value.kind == JINJA_LIST || value.kind == JINJA_TUPLE || value.kind == JINJA_VIEW;
}

bool jinja_is_integer(jinja_value value) {
    return value.kind == JINJA_INT || value.kind == JINJA_BOOL;
}

int64_t jinja_integer(jinja_value value) {
    assert(jinja_is_integer(value));
    return value.kind == JINJA_BOOL ? value.boolean : value.integer;
}

bool jinja_is_number(jinja_value value) {
    return value.kind == JINJA_FLOAT || jinja_is_integer(value);
}

double jinja_number(jinja_value value) {
    return value.kind == JINJA_FLOAT ? value.number : (double)jinja_integer(value);
}

bool jinja_is_true(jinja_value value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        return jinja_number(value) != 0;
    case JINJA_STRING:
        return value.text->length > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return value.sequence->count > 0;
    case JINJA_RANGE:
        return value.range->count > 0;
    case JINJA_DICT:
        return value.dict->count > 0;
    case JINJA_ITERATOR:
    case JINJA_OBJECT:
        break;
    }
    return true;
}

static bool are_items_equal(jinja_work *work, const jinja_sequence *a, const jinja_sequence *b) {
    if (a->count != b->count)
        return false;
    jinja_enter(work);
    bool equal = true;
    for (size_t i = 0; i < a->count && equal; i++)
        equal = jinja_equal(work, a->items[i], b->items[i]);
    jinja_leave(work);
    return equal;
}

static bool are_entries_equal(jinja_work *work, const jinja_dict *a, const jinja_dict *b) {
    if (a->count != b->count)
        return false;
    jinja_enter(work);
    bool equal = true;
    for (size_t i = 0; i < a->count && equal; i++) {
        const jinja_value *other = jinja_dict_get(work, b, a->entries[i].key);
        equal = other && jinja_equal(work, a->entries[i].value, *other);
    }
    jinja_leave(work);
    return equal;
}

static bool are_ranges_equal(const jinja_range *a, const jinja_range *b) {
    return a->count == b->count &&
           (a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step)));
}

bool jinja_equal(jinja_work *work, jinja_value a, jinja_value b) {
    jinja_step(work, 1);
    if (jinja_is_integer(a) && jinja_is_integer(b))
        return jinja_integer(a) == jinja_integer(b);
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_number(a) == jinja_number(b);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JINJA_STRING:
        jinja_step_bytes(work, a.text->length);
        return jinja_text_equal(*a.text, *b.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return are_items_equal(work, a.sequence, b.sequence);
    case JINJA_VIEW:
        return a.sequence == b.sequence || (strcmp(a.sequence->view, "dict_values") != 0 &&
                                            strcmp(a.sequence->view, b.sequence->view) == 0 &&
                                            are_items_equal(work, a.sequence, b.sequence));
    case JINJA_RANGE:
        return are_ranges_equal(a.range, b.range);
    case JINJA_DICT:
        return are_entries_equal(work, a.dict, b.dict);
    case JINJA_ITERATOR:
        return a.iterator == b.iterator;
    case JINJA_OBJECT:
        return a.object == b.object;
    default:
        return true; /* undefined and none */
    }
}

static int order_of(double a, double b) {
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

static int compare_items(jinja_work *work, const jinja_sequence *a, const jinja_sequence *b) {
    size_t count = a->count < b->count ? a->count : b->count;
    jinja_enter(work);
    int order = (a->count > b->count) - (a->count < b->count);
    for (size_t i = 0; i < count; i++)
        if (!jinja_equal(work, a->items[i], b->items[i])) {
            order = jinja_compare(work, a->items[i], b->items[i]);
            break;
        }
    jinja_leave(work);
    return order;
}

int jinja_compare(jinja_work *work, jinja_value a, jinja_value b) {
    jinja_step(work, 1);
    jinja_need_defined(work, a);
    jinja_need_defined(work, b);
    if (jinja_is_integer(a) && jinja_is_integer(b))
        return (jinja_integer(a) > jinja_integer(b)) - (jinja_integer(a) < jinja_integer(b));
    if (jinja_is_number(a) && jinja_is_number(b))
        return order_of(jinja_number(a), jinja_number(b));
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        jinja_step_bytes(work, a.text->length);
        int order = jinja_text_compare(*a.text, *b.text);
        return (order > 0) - (order < 0);
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return compare_items(work, a.sequence, b.sequence);
    jinja_fail(work, LH_ERR_INVALID, "'%s' and '%s' have no order", jinja_type_name(a),
               jinja_type_name(b));
}

const char *jinja_type_name(jinja_value value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return "undefined";
    case JINJA_NONE:
        return "none";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "str";
    case JINJA_LIST:
        return "list";
    case JINJA_TUPLE:
        return "tuple";
    case JINJA_VIEW:
        return value.sequence->view;
    case JINJA_RANGE:
        return "range";
    case JINJA_DICT:
        return "dict";
    case JINJA_ITERATOR:
        return value.iterator->name;
    case JINJA_OBJECT:
        break;
    }
    return value.object->class->name;
}

void jinja_fail_undefined(jinja_work *work, jinja_value value) {
    jinja_fail(work, LH_ERR_INVALID, "%s", value.why ? value.why : "a value is undefined");
}

void jinja_need_defined(jinja_work *work, jinja_value value) {
    if (value.kind == JINJA_UNDEFINED)
        jinja_fail_undefined(work, value);
}
