/* Reads the fields of a request's body, with the API's rules: null counts as absent, 1.0 is an
 * integer, "1" is none, and what is out of range is refused by name. The first field that is wrong
 * fills the error; whatever is read after it counts as absent.
 *
 * Where a reader has a sketch, nothing is read: whoever asks for the fields of an empty body draws
 * the JSON Schema of all bodies that he would take. So what the API says of its requests is what it
 * asks of them. Thread: any. */
#pragma once

#include "gateway/openai/error.h"
#include "gateway/openai/left_out.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One object of the body. */
typedef struct lh_body_reader {
    const json_t *object;   /* NULL: all its fields are absent */
    const char *path;       /* "stream_options."; "" for the body itself */
    lh_openai_error *error; /* status 0: nothing is wrong so far */
    json_t *sketch;         /* the schema of `object`, to be drawn; NULL: the body is read */
    lh_left_out *left_out;  /* where it is noted what is left out of the body; NULL: nowhere */
} lh_body_reader;

/* 400 about a field: the message is its name and the text behind it. An error that there is stays.
 */
void lh_body_refuse(const lh_body_reader *body, const char *key, const char *code,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A field, or what it says, is taken and left out, as it changes nothing about the answer: that is
 * noted (left_out.h) under its name, without the indexes of lists. type: of what stands there, if
 * only this one is left out; NULL: whatever stands there. */
void lh_body_leave_out(const lh_body_reader *body, const char *key, const char *type);

/* NULL: it is absent. What these give lives as long as the body. */
json_t *lh_body_field(const lh_body_reader *body, const char *key);
json_t *lh_body_object(const lh_body_reader *body, const char *key);
/* The same for a reader of its own, whose path is `path`: "stream_options.", which outlives it. */
lh_body_reader lh_body_inside(const lh_body_reader *body, const char *key, const char *path);
/* Of a sketch, a reader of what the list `key`, which was asked for, holds; else without one. */
lh_body_reader lh_body_items(const lh_body_reader *body, const char *key);
/* Of one of these types, as JSON Schema calls them, separated by '|': else it "must be `words`". */
json_t *lh_body_typed(const lh_body_reader *body, const char *key, const char *types,
                      const char *words);
/* At most so many characters. */
const char *lh_body_text(const lh_body_reader *body, const char *key, size_t characters_max);
/* Element `index` of the list `key`, which is to be an object, for a reader of its own: its path is
 * written to `path`, and both outlive it. False: it is none, which is refused. */
#define LH_BODY_PATH_BYTES 96
bool lh_body_element(const lh_body_reader *body, const char *key, size_t index, const json_t *value,
                     char path[LH_BODY_PATH_BYTES], lh_body_reader *element);
/* One of `choices`, separated by '|'. */
const char *lh_body_choice(const lh_body_reader *body, const char *key, const char *choices);

/* Of a sketch: what a field may be, beside null. Takes the schema; NULL: no memory. The first one
 * that says anything stays. */
void lh_body_draw(const lh_body_reader *body, const char *key, json_t *schema);

/* Whether a text is among choices that are separated so. */
bool lh_body_is_one_of(const char *text, const char *choices);

/* False where it is absent, or `otherwise`. */
bool lh_body_bool(const lh_body_reader *body, const char *key);
bool lh_body_bool_or(const lh_body_reader *body, const char *key, bool otherwise);
int64_t lh_body_integer(const lh_body_reader *body, const char *key, int64_t low, int64_t high,
                        int64_t otherwise);
/* low..high; low itself only where low_included. */
double lh_body_number(const lh_body_reader *body, const char *key, double low, bool low_included,
                      double high, double otherwise);
/* Element `index` of the list `key`: an id of the vocabulary. */
uint32_t lh_body_token(const lh_body_reader *body, const char *key, const json_t *list,
                       size_t index, uint32_t vocabulary);
