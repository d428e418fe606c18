/* libyaml's events, one after the other: the mapping's names in turn with their values. */
#include "common/config/config_file.h"

#include "common/base/growing_array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* Nothing that is wanted here is nested at all; what is skipped with a message may be. */
#define DEPTH_MAX 16

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    const char *bytes;
    size_t length;
    lh_config_file *file;
    lh_config_problems *problems;
    lh_error *error;
} reader;

static lh_status fail_memory(reader *r) {
    return lh_fail(r->error, LH_ERR_NO_MEMORY, "no memory for the configuration file");
}

static uint32_t line_of(const yaml_event_t *event) {
    return (uint32_t)event->start_mark.line + 1;
}

/* The end of what can be read: LH_ERR_MALFORMED. */
static lh_status stop(reader *r, uint32_t line, const char *what) {
    lh_config_problems_add(r->problems, line, "%s", what);
    return LH_ERR_MALFORMED;
}

/* ---- Events ---- */

/* libyaml tells bytes that are no text by their offset, all else by its line. */
static lh_status stop_at_fault(reader *r) {
    const yaml_parser_t *parser = &r->parser;
    const char *problem = parser->problem ? parser->problem : "unknown fault";
    size_t line = parser->problem_mark.line;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(r);
    if (parser->error == YAML_READER_ERROR) {
        line = 0;
        for (size_t i = 0; i < parser->problem_offset && i < r->length; i++)
            line += r->bytes[i] == '\n';
    }
    lh_config_problems_add(r->problems, (uint32_t)line + 1,
                           "this is no YAML: %.200s; write \"name: value\", and put values with "
                           "signs such as * & ! # { [ : @ into quotes",
                           problem);
    return LH_ERR_MALFORMED;
}

static const char *fault_of(const yaml_event_t *event) {
    static const char anchor[] = "anchors and aliases (& and *) are not read: write the value out, "
                                 "or put it into quotes";
    static const char tag[] = "tags (!) are not read: leave them out, or put the value into quotes";
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return anchor;
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor ? anchor : event->data.scalar.tag ? tag : NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor ? anchor
               : event->data.sequence_start.tag  ? tag
                                                 : NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor ? anchor
               : event->data.mapping_start.tag  ? tag
                                                : NULL;
    default:
        return NULL;
    }
}

static lh_status next(reader *r) {
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return stop_at_fault(r);
    const char *fault = fault_of(&r->event);
    return fault ? stop(r, line_of(&r->event), fault) : LH_OK;
}

static bool is_start(const yaml_event_t *event) {
    return event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
}

static bool is_end(const yaml_event_t *event) {
    return event->type == YAML_MAPPING_END_EVENT || event->type == YAML_SEQUENCE_END_EVENT;
}

/* Skips from a start to its end. What is nested deeply ends the reading: libyaml looks at all open
 * brackets again for each further one. */
static lh_status skip(reader *r) {
    size_t depth = 1;
    while (depth > 0) {
        lh_status status = next(r);
        if (status != LH_OK)
            return status;
        depth += is_start(&r->event);
        depth -= is_end(&r->event);
        if (depth > DEPTH_MAX)
            return stop(r, line_of(&r->event), "lists and mappings are nested too deeply here");
    }
    return LH_OK;
}

/* ---- Values ---- */

static const char *text_of(const yaml_event_t *event) {
    return (const char *)event->data.scalar.value;
}

/* "name:" with nothing behind it, or YAML's words for nothing. */
static bool is_null(const yaml_event_t *event) {
    const char *text = text_of(event);
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

/* What is wrong with a scalar for a value; NULL: nothing. */
static const char *value_fault(const yaml_event_t *event, size_t room) {
    size_t length = event->data.scalar.length;
    if (is_null(event))
        return "has no value: leave the line out for the default, or write \"\" for none";
    if (strlen(text_of(event)) != length)
        return "has a NUL character in its value";
    return length > room ? "has a value of more than 4096 bytes" : NULL;
}

/* Of a list: "a,b,c". *is_sound: no problem was told. */
static lh_status read_list(reader *r, const char *name, char *text, bool *is_sound) {
    size_t length = 0;
    for (;;) {
        lh_status status = next(r);
        if (status != LH_OK || r->event.type == YAML_SEQUENCE_END_EVENT)
            return status;
        uint32_t line = line_of(&r->event);
        if (is_start(&r->event)) {
            lh_config_problems_add(r->problems, line,
                                   "%.64s: a list has values, not other lists or mappings", name);
            *is_sound = false;
            if ((status = skip(r)) != LH_OK)
                return status;
            continue;
        }
        size_t room = LH_CONFIG_VALUE_BYTES_MAX - length;
        const char *fault = value_fault(&r->event, room ? room - 1 : 0);
        if (!fault && strchr(text_of(&r->event), ','))
            fault = "has a comma in a value of its list: make two of it";
        if (fault) {
            lh_config_problems_add(r->problems, line, "%.64s: %s", name, fault);
            *is_sound = false;
            continue;
        }
        length += (size_t)snprintf(text + length, LH_CONFIG_VALUE_BYTES_MAX + 1 - length, "%s%s",
                                   length ? "," : "", text_of(&r->event));
    }
}

static const lh_config_value *find(const lh_config_file *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->values[i].name, name) == 0)
            return &file->values[i];
    return NULL;
}

static lh_status keep(reader *r, const char *name, const char *text, uint32_t line, bool is_list) {
    lh_config_file *file = r->file;
    const lh_config_value *earlier = find(file, name);
    if (earlier) {
        lh_config_problems_add(r->problems, line,
                               "%.64s: is given twice, first on line %u: leave one of them out",
                               name, earlier->line);
        return LH_OK;
    }
    if (file->count == LH_CONFIG_FILE_VALUES_MAX)
        return stop(r, line, "more than 256 values: there are not so many options");
    if (!lh_growing_array_reserve(&file->values, &file->capacity, file->count + 1,
                                  sizeof *file->values))
        return fail_memory(r);
    lh_config_value value = {strdup(name), strdup(text), line, is_list};
    if (!value.name || !value.text) {
        free(value.name);
        free(value.text);
        return fail_memory(r);
    }
    file->values[file->count++] = value;
    return LH_OK;
}

/* ---- The mapping ---- */

static lh_status read_value(reader *r, const char *name, uint32_t line) {
    char text[LH_CONFIG_VALUE_BYTES_MAX + 1] = "";
    bool is_sound = true, is_list = false;
    lh_status status = next(r);
    if (status != LH_OK)
        return status;
    if (r->event.type == YAML_SCALAR_EVENT) {
        const char *fault = value_fault(&r->event, LH_CONFIG_VALUE_BYTES_MAX);
        is_sound = !fault;
        if (fault)
            lh_config_problems_add(r->problems, line, "%.64s: %s", name, fault);
        else
            strcpy(text, text_of(&r->event));
    } else if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        is_list = true;
        status = read_list(r, name, text, &is_sound);
    } else {
        lh_config_problems_add(r->problems, line,
                               "%.64s: one value is wanted, and not a mapping of more names: put "
                               "JSON into single quotes",
                               name);
        is_sound = false;
        status = skip(r);
    }
    return status == LH_OK && is_sound ? keep(r, name, text, line, is_list) : status;
}

/* After its start, to its end. */
static lh_status read_mapping(reader *r) {
    for (;;) {
        lh_status status = next(r);
        if (status != LH_OK || r->event.type == YAML_MAPPING_END_EVENT)
            return status;
        uint32_t line = line_of(&r->event);
        if (r->event.type != YAML_SCALAR_EVENT ||
            strlen(text_of(&r->event)) != r->event.data.scalar.length)
            return stop(r, line, "a name is wanted here, as in \"name: value\"");
        char *name = strdup(text_of(&r->event));
        if (!name)
            return fail_memory(r);
        status = read_value(r, name, line);
        free(name);
        if (status != LH_OK)
            return status;
    }
}

/* A document of nothing is one null. */
static lh_status read_document(reader *r) {
    lh_status status = next(r);
    if (status != LH_OK)
        return status;
    if (r->event.type == YAML_MAPPING_START_EVENT)
        status = read_mapping(r);
    else if (r->event.type != YAML_SCALAR_EVENT || !is_null(&r->event))
        return stop(r, line_of(&r->event),
                    "lines of \"name: value\" are wanted, and here is something else");
    return status == LH_OK ? next(r) : status; /* the document's end */
}

static lh_status read_stream(reader *r) {
    lh_status status = next(r); /* the stream's start */
    if (status == LH_OK)
        status = next(r);
    if (status != LH_OK || r->event.type == YAML_STREAM_END_EVENT)
        return status;
    status = read_document(r);
    if (status == LH_OK)
        status = next(r);
    if (status == LH_OK && r->event.type != YAML_STREAM_END_EVENT)
        return stop(r, line_of(&r->event), "a second document (---) begins: one is read");
    return status;
}

lh_status lh_config_file_parse(const char *bytes, size_t length, lh_config_file *file,
                               lh_config_problems *problems, lh_error *error) {
    reader r = {
        .bytes = bytes, .length = length, .file = file, .problems = problems, .error = error};
    if (length > LH_CONFIG_FILE_BYTES_MAX) {
        lh_config_problems_add(problems, 0, "is longer than 64 KiB: is it the right file?");
        return LH_OK;
    }
    if (!yaml_parser_initialize(&r.parser))
        return fail_memory(&r);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, length);
    lh_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status == LH_ERR_NO_MEMORY ? status : LH_OK;
}

lh_status lh_config_file_read(lh_config_file *file, lh_config_problems *problems, lh_error *error) {
    FILE *stream = fopen(problems->path, "re");
    char *bytes = malloc(LH_CONFIG_FILE_BYTES_MAX + 1);
    lh_status status = LH_OK;
    size_t length = stream && bytes ? fread(bytes, 1, LH_CONFIG_FILE_BYTES_MAX + 1, stream) : 0;
    if (!bytes)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the configuration file");
    else if (!stream || ferror(stream))
        lh_config_problems_add(problems, 0, "cannot be read: %s", strerror(errno));
    else
        status = lh_config_file_parse(bytes, length, file, problems, error);
    free(bytes);
    if (stream)
        fclose(stream);
    return status;
}

void lh_config_file_reset(lh_config_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        free(file->values[i].name);
        free(file->values[i].text);
    }
    free(file->values);
    *file = (lh_config_file){0};
}
