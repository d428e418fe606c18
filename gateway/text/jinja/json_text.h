/* Values as JSON text, as transformers' tojson writes it: json.dumps. Thread: the owner's. */
#pragma once

#include "gateway/text/jinja/value.h"

typedef struct jinja_json_style {
    bool is_ascii;       /* ensure_ascii */
    bool sorts_keys;     /* sort_keys */
    bool is_indented;    /* an indent was given, which may be empty */
    jinja_text indent;   /* for each level */
    jinja_text item_end, /* "," or ", " */
        key_end;         /* ": " */
} jinja_json_style;

/* Fails for a value that JSON does not have. */
void jinja_json_into(jinja_builder *out, jinja_value value, const jinja_json_style *style);
