/* What form an answer must have: response_format in OpenAI's words and llama.cpp's, guided_* and
 * structured_outputs in vLLM's, grammar and json_schema in llama.cpp's. One of them at most. Plain
 * data that points into the parsed body. Thread: any. */
#pragma once

#include "gateway/constrain/constraint_source.h"
#include "gateway/openai/body_reader.h"

typedef struct lh_openai_output_format {
    bool is_given;     /* false: any text */
    const char *param; /* whose value it is, "response_format": static */
    const char *name;  /* of a json_schema; NULL: none */
    lh_constraint_source source;
    json_t *own; /* the value, where it had to be made of a text; released by _reset */
} lh_openai_output_format;

/* The first field that is wrong fills the body's error. Either way the caller resets *format. */
void lh_openai_output_format_parse(const lh_body_reader *body, lh_openai_output_format *format);
/* The same of other dialects, whose form is the member `format` of an object; name_of_param,
 * static, is its path. The first: the members of a json_schema stand beside its type. The second:
 * schemas alone, which have no name. */
void lh_openai_output_format_parse_flat(const lh_body_reader *parent, const char *name_of_param,
                                        lh_openai_output_format *format);
void lh_openai_output_format_parse_schema(const lh_body_reader *parent, const char *name_of_param,
                                          lh_openai_output_format *format);
/* Ollama's `format`: "json", a schema, or "" for none. */
void lh_openai_output_format_parse_bare(const lh_body_reader *body,
                                        lh_openai_output_format *format);
/* `strict` of an object with a schema under `key`: what is left out of schemas elsewhere
 * (schema_draft.h) is refused where it is true. */
void lh_openai_output_format_check_strict(const lh_body_reader *of, const char *key);
/* What cannot stand beside a form, that `of` this field: both would take a token from an
 * answer that must have it. */
void lh_openai_output_format_check_companions(const lh_body_reader *body, const char *of);
void lh_openai_output_format_reset(lh_openai_output_format *format);

/* Why it could not be compiled, as OpenAI says it. Gives false. */
bool lh_openai_output_format_refuse(const lh_openai_output_format *format, const lh_error *cause,
                                    lh_openai_error *error);
