/* One switch over the kinds for each direction. */
#include "common/json/json_fields.h"

#include "common/base/utf8.h"
#include "common/json/json_text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *member_of(const lh_json_field *field, const void *object) {
    return (const char *)object + field->at;
}

static uint32_t u32_at(const void *object, size_t at) {
    uint32_t value;
    memcpy(&value, (const char *)object + at, sizeof value);
    return value;
}

static uint64_t u64_of(const void *member) {
    uint64_t value;
    memcpy(&value, member, sizeof value);
    return value;
}

static double number_of(const void *member) {
    double value;
    memcpy(&value, member, sizeof value);
    return value;
}

static bool bool_at(const void *object, size_t at) {
    bool value;
    memcpy(&value, (const char *)object + at, sizeof value);
    return value;
}

/* ---- Out ---- */

static bool is_empty(const lh_json_field *field, const void *object) {
    const void *member = member_of(field, object);
    if (field->flags & LH_JSON_MARKED)
        return !bool_at(object, field->mark);
    switch (field->kind) {
    case LH_JSON_BOOL:
        return !bool_at(object, field->at);
    case LH_JSON_U32:
        return u32_at(object, field->at) == 0;
    case LH_JSON_U64:
        return u64_of(member) == 0;
    case LH_JSON_NUMBER:
        return !(number_of(member) > (double)field->least);
    case LH_JSON_OBJECT:
        return field->inner->is_there && !field->inner->is_there(member);
    case LH_JSON_LIST:
        return u32_at(object, field->count) == 0;
    case LH_JSON_OWN:
        return !field->own->is_there(member);
    case LH_JSON_I64:
    case LH_JSON_HEX_U64:
    case LH_JSON_HEX:
    case LH_JSON_CHOICE:
        return false;
    default:
        return *(const char *)member == '\0';
    }
}

static json_t *render_text(const char *text) {
    const size_t length = strlen(text);
    const bool is_utf8 = lh_utf8_valid_prefix(text, length) == length;
    return json_string(is_utf8 ? text : "(a text that is not UTF-8)");
}

static json_t *render_integer(const lh_json_field *field, const void *member) {
    const uint64_t bits = u64_of(member);
    if (field->kind == LH_JSON_U64)
        return json_integer(bits > INT64_MAX ? INT64_MAX : (json_int_t)bits);
    const int64_t value = (int64_t)bits;
    if (field->flags & LH_JSON_ESTIMATE)
        return json_integer(value < 0 ? 0 : value < field->most ? value : field->most);
    return json_integer(value);
}

static json_t *render_number(const lh_json_field *field, double value) {
    const double most = (double)field->most;
    if (!(field->flags & LH_JSON_ESTIMATE))
        return json_real(value);
    if (!(value > 0) || isinf(value))
        return json_real(0);
    return json_real(value < most ? value : most);
}

static json_t *render_hex(const uint8_t *bytes, size_t count) {
    char text[2 * 32 + 1];
    assert(count <= 32);
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static json_t *render_list(const lh_json_field *field, const void *object) {
    const char *element = member_of(field, object);
    json_t *list = json_array();
    for (uint32_t i = 0; i < u32_at(object, field->count) && list; i++)
        list = lh_json_append(
            list, lh_json_record_render(field->inner, element + i * field->inner->bytes));
    return list;
}

static json_t *render_member(const lh_json_field *field, const void *object) {
    const void *member = member_of(field, object);
    char digits[17];
    switch (field->kind) {
    case LH_JSON_BOOL:
        return json_boolean(bool_at(object, field->at));
    case LH_JSON_U32:
        return json_integer(u32_at(object, field->at));
    case LH_JSON_U64:
    case LH_JSON_I64:
        return render_integer(field, member);
    case LH_JSON_NUMBER:
        return render_number(field, number_of(member));
    case LH_JSON_HEX_U64:
        snprintf(digits, sizeof digits, "%016" PRIx64, u64_of(member));
        return json_string(digits);
    case LH_JSON_HEX:
        return render_hex(member, field->size);
    case LH_JSON_CHOICE:
        return json_string(field->name_of(u32_at(object, field->at)));
    case LH_JSON_OBJECT:
        return lh_json_record_render(field->inner, member);
    case LH_JSON_LIST:
        return render_list(field, object);
    case LH_JSON_OWN:
        return field->own->render(member);
    default:
        return render_text(member);
    }
}

/* Adds the members to `rendered`; NULL, and it is released: out of memory. */
static json_t *render_fields(const lh_json_record *record, const void *object, json_t *rendered) {
    for (size_t i = 0; i < record->count && rendered; i++) {
        const lh_json_field *field = &record->fields[i];
        const bool may_hide = field->flags & (LH_JSON_AS_NULL | LH_JSON_LEFT_OUT);
        const bool is_hidden = may_hide && is_empty(field, object);
        if (field->kind == LH_JSON_INLINE)
            rendered = render_fields(field->inner, object, rendered);
        else if (!is_hidden || field->flags & LH_JSON_AS_NULL)
            rendered = lh_json_set(rendered, field->key,
                                   is_hidden ? json_null() : render_member(field, object));
        if (field->flags & LH_JSON_ENDS && bool_at(object, field->at))
            break;
    }
    return rendered;
}

json_t *lh_json_record_render(const lh_json_record *record, const void *object) {
    if (record->is_there && !record->is_there(object))
        return json_null();
    return render_fields(record, object, json_object());
}

char *lh_json_record_text(const lh_json_record *record, const void *object) {
    lh_text_buffer text = {0};
    lh_status status = lh_json_render(lh_json_record_render(record, object), &text);
    if (status == LH_OK)
        status = lh_text_buffer_append(&text, "", 1, NULL); /* its end */
    if (status != LH_OK)
        lh_text_buffer_reset(&text);
    return text.bytes;
}

/* ---- In ---- */

static void read_address(const lh_json_reader *r, const char *key, char *address, size_t capacity) {
    lh_json_read_text(r, key, address, capacity);
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (port == 0 || port > 65535 || *end || colon == address || strpbrk(address, " /@?#"))
        lh_json_refuse(r, key, "\"host:port\" or null");
}

static void read_hex(const lh_json_reader *r, const lh_json_field *field, uint8_t *bytes) {
    char text[2 * 32 + 1];
    assert(field->size <= 32);
    lh_json_read_hex(r, field->key, text, 2 * field->size);
    for (size_t i = 0; i < field->size && text[0]; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
}

static void read_hex_u64(const lh_json_reader *r, const char *key, void *member) {
    char text[17];
    lh_json_read_hex(r, key, text, sizeof text - 1);
    memcpy(member, &(uint64_t){strtoull(text, NULL, 16)}, sizeof(uint64_t));
}

static void read_word(const lh_json_reader *r, const lh_json_field *field, char *word) {
    const char *text = lh_json_peek_string(r, field->key);
    const char *const *known = field->words;
    while (*known && (!text || strcmp(*known, text) != 0))
        known++;
    if (*known)
        snprintf(word, field->size, "%s", *known);
    else
        lh_json_refuse(r, field->key, "%s", field->wanted);
}

static void read_choice(const lh_json_reader *r, const lh_json_field *field, void *member) {
    const char *text = lh_json_peek_string(r, field->key);
    for (uint32_t value = (uint32_t)field->least; text && value <= field->most; value++)
        if (strcmp(text, field->name_of(value)) == 0) {
            memcpy(member, &value, sizeof value);
            return;
        }
    lh_json_refuse(r, field->key, "%s", field->wanted);
}

static void read_list(const lh_json_reader *r, const lh_json_field *field, void *object) {
    const uint32_t count = (uint32_t)lh_json_read_array(r, field->key, (size_t)field->most);
    char *element = (char *)object + field->at;
    memcpy((char *)object + field->count, &count, sizeof count);
    for (uint32_t i = 0; i < count && lh_json_is_good(r); i++) {
        const lh_json_reader inner = lh_json_element(r, field->key, i);
        lh_json_record_read(field->inner, &inner, element + i * field->inner->bytes);
    }
}

static void read_object(const lh_json_reader *r, const lh_json_field *field, void *member) {
    lh_json_reader inner;
    if (lh_json_read_object(r, field->key, field->flags & LH_JSON_NULL, &inner))
        lh_json_record_read(field->inner, &inner, member);
    if (!lh_json_is_good(r))
        memset(member, 0, field->size);
}

static void read_integer(const lh_json_reader *r, const lh_json_field *field, void *member) {
    const int64_t value = lh_json_read_integer(r, field->key, field->least, field->most);
    if (field->kind == LH_JSON_U32)
        memcpy(member, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
    else
        memcpy(member, &value, sizeof value);
}

static void read_member(const lh_json_reader *r, const lh_json_field *field, void *object) {
    void *member = (char *)object + field->at;
    switch (field->kind) {
    case LH_JSON_BOOL:
        memcpy(member, &(bool){lh_json_read_bool(r, field->key)}, sizeof(bool));
        break;
    case LH_JSON_U32:
    case LH_JSON_U64:
    case LH_JSON_I64:
        read_integer(r, field, member);
        break;
    case LH_JSON_NUMBER: {
        double value =
            lh_json_read_number(r, field->key, (double)field->least, (double)field->most);
        memcpy(member, &value, sizeof value);
        break;
    }
    case LH_JSON_TEXT:
        lh_json_read_text(r, field->key, member, field->size);
        break;
    case LH_JSON_LINE:
        lh_json_read_line(r, field->key, member, field->size);
        break;
    case LH_JSON_NAME:
        assert(field->size == LH_NAME_BYTES);
        lh_json_read_name(r, field->key, member);
        break;
    case LH_JSON_ADDRESS:
        read_address(r, field->key, member, field->size);
        break;
    case LH_JSON_DIGITS:
        lh_json_read_hex(r, field->key, member, field->size - 1);
        break;
    case LH_JSON_HEX_U64:
        read_hex_u64(r, field->key, member);
        break;
    case LH_JSON_HEX:
        read_hex(r, field, member);
        break;
    case LH_JSON_WORD:
        read_word(r, field, member);
        break;
    case LH_JSON_CHOICE:
        read_choice(r, field, member);
        break;
    case LH_JSON_OBJECT:
        read_object(r, field, member);
        break;
    case LH_JSON_LIST:
        read_list(r, field, object);
        break;
    case LH_JSON_INLINE:
        lh_json_record_read(field->inner, r, object);
        break;
    case LH_JSON_OWN:
        field->own->read(r, field->key, member);
        break;
    }
}

/* Whether the document says nothing here, and may. */
static bool is_passed_over(const lh_json_reader *r, const lh_json_field *field) {
    if (field->kind == LH_JSON_INLINE || field->flags & LH_JSON_NOT_READ)
        return field->flags & LH_JSON_NOT_READ;
    if (!lh_json_is_present(r, field->key))
        return field->flags & LH_JSON_ABSENT;
    return !lh_json_is_there(r, field->key) && field->flags & LH_JSON_NULL;
}

void lh_json_record_read(const lh_json_record *record, const lh_json_reader *reader, void *object) {
    for (size_t i = 0; i < record->count; i++) {
        const lh_json_field *field = &record->fields[i];
        if (!is_passed_over(reader, field)) {
            read_member(reader, field, object);
            if (field->flags & LH_JSON_MARKED)
                memcpy((char *)object + field->mark, &(bool){lh_json_is_good(reader)},
                       sizeof(bool));
        } else if (field->kind == LH_JSON_WORD) {
            snprintf((char *)object + field->at, field->size, "%s", field->words[0]);
        }
        if (field->flags & LH_JSON_ENDS && bool_at(object, field->at))
            return;
    }
    if (record->check)
        record->check(reader, object);
}
