/* Getters over jansson. */
#include "common/json/json_reader.h"

#include "common/json/json_object.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lh_status lh_json_document_open(lh_json_document *document, const char *bytes, size_t length,
                                lh_error *error, lh_json_reader *root) {
    lh_error cause;
    document->error = error;
    document->status = LH_OK;
    document->root = lh_json_object_parse(bytes, length, &cause);
    *root = (lh_json_reader){.document = document, .object = document->root};
    if (!document->root)
        document->status =
            lh_fail(error, cause.status == LH_ERR_NO_MEMORY ? LH_ERR_NO_MEMORY : LH_ERR_MALFORMED,
                    "%s: %s", document->name, cause.message);
    return document->status;
}

lh_status lh_json_document_close(lh_json_document *document) {
    json_decref(document->root);
    document->root = NULL;
    return document->status;
}

void lh_json_refuse(const lh_json_reader *reader, const char *field, const char *wanted, ...) {
    lh_json_document *document = reader->document;
    char text[120];
    va_list arguments;
    va_start(arguments, wanted);
    vsnprintf(text, sizeof text, wanted, arguments);
    va_end(arguments);
    if (document->status == LH_OK)
        document->status = lh_fail(document->error, document->refusal, "%s: %s%s must be %s",
                                   document->name, reader->path, field, text);
}

bool lh_json_is_good(const lh_json_reader *reader) {
    return reader->document->status == LH_OK;
}

bool lh_json_is_present(const lh_json_reader *reader, const char *field) {
    return json_object_get(reader->object, field);
}

bool lh_json_is_there(const lh_json_reader *reader, const char *field) {
    return lh_json_is_present(reader, field) &&
           !json_is_null(json_object_get(reader->object, field));
}

int64_t lh_json_read_integer(const lh_json_reader *reader, const char *field, int64_t least,
                             int64_t most) {
    const json_t *value = json_object_get(reader->object, field);
    int64_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= least && number <= most)
        return number;
    lh_json_refuse(reader, field, "an integer in %" PRId64 "..%" PRId64, least, most);
    return 0;
}

double lh_json_read_number(const lh_json_reader *reader, const char *field, double least,
                           double most) {
    const json_t *value = json_object_get(reader->object, field);
    double number = json_number_value(value);
    if (json_is_number(value) && number >= least && number <= most)
        return number;
    lh_json_refuse(reader, field, "a number from %g to %g", least, most);
    return 0;
}

bool lh_json_read_bool(const lh_json_reader *reader, const char *field) {
    const json_t *value = json_object_get(reader->object, field);
    if (!json_is_boolean(value))
        lh_json_refuse(reader, field, "true or false");
    return json_is_true(value);
}

static bool is_control(char byte) {
    return (unsigned char)byte < 0x20 || byte == 0x7f;
}

/* Copies a string of `least` to capacity - 1 bytes. */
static bool copy_text(const lh_json_reader *reader, const char *field, size_t least, char *text,
                      size_t capacity) {
    const json_t *value = json_object_get(reader->object, field);
    size_t length = json_string_length(value);
    text[0] = '\0';
    if (json_is_string(value) && length >= least && length < capacity) {
        memcpy(text, json_string_value(value), length + 1);
        return true;
    }
    lh_json_refuse(reader, field, "a text of %s%zu bytes", least ? "1 to " : "at most ",
                   capacity - 1);
    return false;
}

void lh_json_read_text(const lh_json_reader *reader, const char *field, char *text,
                       size_t capacity) {
    if (!copy_text(reader, field, 0, text, capacity))
        return;
    for (; *text; text++)
        if (is_control(*text))
            *text = '?';
}

void lh_json_read_line(const lh_json_reader *reader, const char *field, char *text,
                       size_t capacity) {
    if (!copy_text(reader, field, 1, text, capacity))
        return;
    for (const char *at = text; *at; at++)
        if (is_control(*at)) {
            text[0] = '\0';
            lh_json_refuse(reader, field, "a text without control characters");
            return;
        }
}

void lh_json_read_name(const lh_json_reader *reader, const char *field, char name[LH_NAME_BYTES]) {
    if (!copy_text(reader, field, 1, name, LH_NAME_BYTES) || lh_name_is_valid(name))
        return;
    name[0] = '\0';
    lh_json_refuse(reader, field, "1 to 63 of [A-Za-z0-9._-]");
}

void lh_json_read_hex(const lh_json_reader *reader, const char *field, char *text, size_t digits) {
    const json_t *value = json_object_get(reader->object, field);
    const char *string = json_is_string(value) ? json_string_value(value) : "";
    text[0] = '\0';
    if (strlen(string) == digits && strspn(string, "0123456789abcdef") == digits) {
        memcpy(text, string, digits + 1);
        return;
    }
    lh_json_refuse(reader, field, "%zu lower-case hex digits", digits);
}

const char *lh_json_peek_string(const lh_json_reader *reader, const char *field) {
    return json_string_value(json_object_get(reader->object, field));
}

bool lh_json_read_object(const lh_json_reader *reader, const char *field, bool may_be_null,
                         lh_json_reader *inner) {
    const json_t *value = json_object_get(reader->object, field);
    *inner = (lh_json_reader){.document = reader->document, .object = value};
    snprintf(inner->path, sizeof inner->path, "%.30s%.32s.", reader->path, field);
    if (json_is_object(value))
        return true;
    if (!may_be_null || !json_is_null(value))
        lh_json_refuse(reader, field, may_be_null ? "an object or null" : "an object");
    return false;
}

size_t lh_json_read_array(const lh_json_reader *reader, const char *field, size_t most) {
    const json_t *value = json_object_get(reader->object, field);
    size_t count = json_array_size(value);
    if (json_is_array(value) && count <= most)
        return count;
    lh_json_refuse(reader, field, "a list of at most %zu", most);
    return 0;
}

lh_json_reader lh_json_element(const lh_json_reader *reader, const char *field, size_t index) {
    lh_json_reader element = *reader;
    element.object = json_array_get(json_object_get(reader->object, field), index);
    return element;
}

void lh_json_element_name(const lh_json_reader *reader, const char *field, size_t index,
                          char name[LH_NAME_BYTES]) {
    const json_t *value = json_array_get(json_object_get(reader->object, field), index);
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    bool is_name = lh_name_is_valid(text) && strlen(text) == json_string_length(value);
    snprintf(name, LH_NAME_BYTES, "%s", is_name ? text : "");
    if (!is_name)
        lh_json_refuse(reader, field, "a list of names of 1 to 63 of [A-Za-z0-9._-]");
}
