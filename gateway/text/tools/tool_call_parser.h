/* The calls of tools in what a model answers, told apart from its text while it comes: a call's id
 * and name as soon as both the name and the beginning of the arguments are known, then the
 * arguments piece by piece, as the model wrote them (parameters that are no JSON one by one, made
 * JSON). What looks like a call and is none is text. An object in a fence of Markdown, or one with
 * which the answer begins, is a call where it has the name of one of the tools.
 * Thread: its owner's. */
#pragma once

#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "gateway/text/tools/json_extent.h"
#include "gateway/text/tools/tool_format.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_TOOL_NAME_BYTES_MAX 256u
/* Calls of one answer. */
#define LH_TOOL_CALLS_MAX 128u

/* A piece of one call. */
typedef struct lh_tool_call_delta {
    uint32_t index;
    bool begins; /* id and name are set; else "" */
    char id[LH_RANDOM_ID_BYTES], name[LH_TOOL_NAME_BYTES_MAX + 1];
    size_t arguments_at, arguments_length; /* in the parser's `arguments` */
} lh_tool_call_delta;

typedef enum lh_tool_call_stage {
    LH_TOOL_CALL_BEGIN,     /* of an answer that may begin with a call: white space so far */
    LH_TOOL_CALL_TEXT,      /* no mark has come */
    LH_TOOL_CALL_HEADER,    /* of a message, which may be a call */
    LH_TOOL_CALL_FENCE,     /* behind the mark of one, before the end of its line */
    LH_TOOL_CALL_BETWEEN,   /* behind the opening mark, or behind a call */
    LH_TOOL_CALL_NAME,      /* before the separator */
    LH_TOOL_CALL_KEY,       /* in an object, before a key, or behind a value */
    LH_TOOL_CALL_VALUE,     /* of the key */
    LH_TOOL_CALL_ARGUMENTS, /* of a call whose head is out */
    LH_TOOL_CALL_PARAMETER, /* the same: before the mark of one, or behind one */
    LH_TOOL_CALL_WRITTEN,   /* the value of a parameter, as it was written */
    LH_TOOL_CALL_TURN,      /* behind the closing mark: white space is nobody's */
    LH_TOOL_CALL_OVER       /* one more call than may be: the rest is left out */
} lh_tool_call_stage;

typedef struct lh_tool_call_parser {
    const lh_tool_format *format; /* NULL: all is text */
    /* Chat's, the owner's, of which parameters are told whether they are texts, and what may stand
     * in a fence or for itself; NULL: not known, and nothing may */
    const json_t *tools;
    lh_tool_call_stage stage;
    uint32_t calls_max;
    bool must_call;  /* the owner's: the answer is held to a form that begins with a call */
    uint32_t count;  /* of calls whose head is out */
    bool has_called; /* since the opening mark */
    bool in_fence;   /* which is that of a fence, or there is none: a tool's name makes the call */
    lh_text_buffer held; /* not taken yet */
    lh_text_buffer raw;  /* taken of what may be a call: text, if it turns out to be none */
    /* The call. */
    bool is_out;                           /* its head is */
    char name[LH_TOOL_NAME_BYTES_MAX + 1]; /* "": not known */
    lh_text_buffer early;                  /* its arguments, while its head is not out */
    /* The value that is being taken. */
    enum { LH_TOOL_KEY_OTHER, LH_TOOL_KEY_NAME, LH_TOOL_KEY_ARGUMENTS } key;
    lh_json_extent extent;
    lh_text_buffer value;
    lh_text_buffer parameter; /* its name */
    uint32_t parameter_count; /* that are out */
    /* What _take gives. */
    lh_tool_call_delta *deltas;
    size_t delta_count, delta_capacity;
    lh_text_buffer arguments;
} lh_tool_call_parser;

/* calls_max: 1 .. LH_TOOL_CALLS_MAX; from the next one on the answer is left out. Zeroed first;
 * _reset frees it. */
void lh_tool_call_parser_init(lh_tool_call_parser *parser, const lh_tool_format *format,
                              uint32_t calls_max);
void lh_tool_call_parser_reset(lh_tool_call_parser *parser);
/* Appends what is known to be text to `text`, and what is of calls to the parser's deltas, which
 * stay until _drop. LH_ERR_NO_MEMORY. */
lh_status lh_tool_call_parser_push(lh_tool_call_parser *parser, const char *bytes, size_t length,
                                   lh_text_buffer *text, lh_error *error);
/* No more comes: what was held back and is no call is text; is_cut: the model was not at its end,
 * and what has begun as a call is neither; where one must be made, one byte has. LH_ERR_NO_MEMORY.
 */
lh_status lh_tool_call_parser_finish(lh_tool_call_parser *parser, bool is_cut, lh_text_buffer *text,
                                     lh_error *error);
/* Forgets the deltas. */
void lh_tool_call_parser_drop(lh_tool_call_parser *parser);
