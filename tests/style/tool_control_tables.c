/* Prints the fields of a worker's report, or of the reply to it, as a table in Markdown: what
 * test_control_tables.py compares common/protocol/CONTROL.md with.
 *
 *     control_tables report|reply */
#include "common/protocol/control/assignment_reply.h"
#include "common/protocol/control/report_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RECORDS_MAX 32
#define PATH_BYTES  128

/* Records that were printed, so that one which several fields have is printed once. */
static struct {
    const lh_json_record *record;
    char path[PATH_BYTES];
} printed[RECORDS_MAX];
static size_t printed_count;

static const char *path_of(const lh_json_record *record) {
    for (size_t i = 0; i < printed_count; i++)
        if (printed[i].record == record)
            return printed[i].path;
    return NULL;
}

static void print_range(const lh_json_field *field, const char *what) {
    if (field->most == INT64_MAX)
        printf("%s of %" PRId64 " or more", what, field->least);
    else
        printf("%s from %" PRId64 " to %" PRId64, what, field->least, field->most);
}

static void print_words(const lh_json_field *field) {
    for (int64_t i = 0; field->words ? field->words[i] != NULL : field->least + i <= field->most;
         i++) {
        const char *word =
            field->words ? field->words[i] : field->name_of((unsigned)(field->least + i));
        printf("%s`\"%s\"`", i > 0 ? ", " : "", word);
    }
}

static void print_kind(const lh_json_field *field) {
    const char *known = field->inner ? path_of(field->inner) : NULL;
    switch (field->kind) {
    case LH_JSON_BOOL:
        printf("true or false");
        return;
    case LH_JSON_U32:
    case LH_JSON_U64:
    case LH_JSON_I64:
        print_range(field, "integer");
        return;
    case LH_JSON_NUMBER:
        print_range(field, "number");
        return;
    case LH_JSON_TEXT:
    case LH_JSON_LINE:
        printf("text of %s %zu bytes", field->kind == LH_JSON_TEXT ? "at most" : "1 to",
               field->size - 1);
        return;
    case LH_JSON_NAME:
        printf("name");
        return;
    case LH_JSON_ADDRESS:
        printf("`\"host:port\"`");
        return;
    case LH_JSON_DIGITS:
        printf("%zu hex digits", field->size - 1);
        return;
    case LH_JSON_HEX_U64:
        printf("16 hex digits");
        return;
    case LH_JSON_HEX:
        printf("%zu hex digits", 2 * field->size);
        return;
    case LH_JSON_WORD:
    case LH_JSON_CHOICE:
        print_words(field);
        return;
    case LH_JSON_LIST:
        printf("list of at most %" PRId64, field->most);
        break;
    case LH_JSON_OBJECT:
    case LH_JSON_INLINE:
        printf("object");
        break;
    case LH_JSON_OWN:
        printf("%s", field->own->looks);
        return;
    }
    if (known)
        printf(", as `%s`", known);
}

static void print_value(const lh_json_field *field) {
    print_kind(field);
    if (field->flags & LH_JSON_NULL)
        printf(", or null");
    if (field->flags & LH_JSON_ABSENT)
        printf(field->kind == LH_JSON_WORD ? ", the first where absent" : ", or absent");
}

static void print_record(const lh_json_record *record, const char *path);

static void print_field(const lh_json_field *field, const char *path) {
    char own[PATH_BYTES];
    snprintf(own, sizeof own, "%s%s%s", path, path[0] != '\0' ? "." : "", field->key);
    const bool is_new = field->inner && !path_of(field->inner);
    printf("| `%s` | ", own);
    print_value(field);
    printf(" | %s |\n", field->meaning);
    if (is_new)
        print_record(field->inner, own);
}

static void print_record(const lh_json_record *record, const char *path) {
    snprintf(printed[printed_count].path, PATH_BYTES, "%s", path);
    printed[printed_count++].record = record;
    for (size_t i = 0; i < record->count; i++) {
        const lh_json_field *field = &record->fields[i];
        const char *known = field->kind == LH_JSON_INLINE ? path_of(field->inner) : NULL;
        if (field->kind != LH_JSON_INLINE)
            print_field(field, path);
        else if (!known)
            print_record(field->inner, path);
        else
            printf("| `%s.%s` to `.%s` | as in `%s` | the stage |\n", path,
                   field->inner->fields[0].key, field->inner->fields[field->inner->count - 1].key,
                   known);
    }
}

int main(int count, char **words) {
    const bool is_report = count == 2 && strcmp(words[1], "report") == 0;
    if (!is_report && (count != 2 || strcmp(words[1], "reply") != 0)) {
        fprintf(stderr, "give report or reply\n");
        return 2;
    }
    printf("| field | value | meaning |\n| --- | --- | --- |\n");
    print_record(is_report ? &lh_worker_report_record : &lh_assignment_reply_record, "");
    return 0;
}
