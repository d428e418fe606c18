/* How models write that they call a tool. Each was taught a way of its own, which stands in its
 * chat template: marks around one call or around all of them, and JSON between. Static data.
 * Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum lh_tool_body {
    LH_TOOL_BODY_OBJECT, /* {"name": ..., "arguments": {...}}, one or several, or a list of them */
    LH_TOOL_BODY_NAMED,  /* the name, a separator, the arguments as JSON */
    /* The name, a separator, and each parameter by itself (tool_parameter.h): a mark, its name, the
     * separator, its value, another mark. */
    LH_TOOL_BODY_PARAMETERS
} lh_tool_body;

/* What a model writes around calls where it keeps to its format to the letter. */
typedef struct lh_tool_writing {
    const char *before, *behind; /* all of them */
    const char *between;         /* two of them; NULL: it makes one call at a time */
    const char *separator;       /* behind a name */
    /* Of LH_TOOL_BODY_PARAMETERS: behind a parameter's name, and behind its value. */
    const char *parameter_separator, *parameter_end;
    const char *end; /* of a call; NULL: nothing */
} lh_tool_writing;

typedef struct lh_tool_format {
    const char *name;
    lh_tool_body body;
    /* Before the calls, and behind them (NULL: they end with the answer). */
    const char *open, *close;
    /* The answer may also begin with a call, without the mark. */
    bool begins_bare;
    /* Messages have headers, which begin with one of these and end with the separator; `open`
     * stands in that of a call. NULL: none. */
    const char *headers[2];
    /* Around each call between the two; NULL: nothing. */
    const char *call_open, *call_close;
    const char *separator; /* behind a name */
    /* Of LH_TOOL_BODY_PARAMETERS, around each of them. */
    const char *parameter_open, *parameter_close;
    bool
        reads_fences; /* its models also write a call as a bare object, or in a fence of Markdown */
    const char *arguments_key; /* of LH_TOOL_BODY_OBJECT, as its model was taught it */
    /* Letters and digits of an id; 0: "call_" and 24 of them. Its template checks them. */
    size_t id_length;
    lh_tool_writing writing; /* what is read may be freer */
} lh_tool_format;

/* What the template speaks. Of a template that knows no tools, or writes them in a way that is not
 * known here: lh_tool_format_generic. */
const lh_tool_format *lh_tool_format_find(const char *chat_template, size_t length);
/* What a model without any is told to write. */
const lh_tool_format *lh_tool_format_generic(void);
/* Whether a model can write the name so that it is read again: where names are no JSON, they end at
 * white space and at what begins a mark. */
bool lh_tool_format_takes_name(const lh_tool_format *format, const char *name);
/* Whether the text stands in one of the format's marks: a control token of that name has no other
 * bytes. format NULL: false. */
bool lh_tool_format_has_mark(const lh_tool_format *format, const char *text, size_t length);
