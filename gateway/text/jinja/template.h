/* A Jinja template as chat models have it: parsed once, rendered often. It may come from anybody:
 * it does no input or output, sees no clock, and has bounds on steps, depth, memory and output.
 *
 * What renders is what transformers allows a chat template: jinja2's ImmutableSandboxedEnvironment
 * (trim_blocks, lstrip_blocks, loop controls) with tojson, raise_exception, strftime_now and
 * generation blocks; not: include, import, extends, block, autoescape (there is one template, of
 * text); the filters random, pprint, urlize, wordwrap, striptags and xmlattr; the tests escaped,
 * filter and test; integers beyond 64 bits; \N{...} in strings. Each of those fails, none is passed
 * over. Text is never Markup: `safe` changes nothing, `escape` escapes again. */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Real ones have up to 30 KiB. */
#define LH_JINJA_TEMPLATE_BYTES_MAX (1u << 20)

typedef struct lh_jinja_template lh_jinja_template;

/* Copies the text. LH_ERR_UNSUPPORTED: it is no template, the message names the line and what is
 * expected there; LH_ERR_LIMIT: too long or too deep; LH_ERR_NO_MEMORY. */
lh_status lh_jinja_template_parse(const char *text, size_t length, lh_jinja_template **jinja,
                                  lh_error *error);
void lh_jinja_template_destroy(lh_jinja_template *jinja);

typedef struct lh_jinja_variable {
    const char *name;
    const json_t *value;
    bool is_of_template; /* as bos_token is: it may be, or be part of, a special token */
} lh_jinja_variable;

/* A run of bytes that all come from the template, or all from data. */
typedef struct lh_jinja_span {
    size_t length; /* bytes, > 0 */
    bool is_of_template;
} lh_jinja_span;

typedef struct lh_jinja_rendering {
    char *text; /* [length]; not terminated, and not NULL */
    size_t length;
    lh_jinja_span *spans; /* [span_count]: all of the text */
    size_t span_count;
} lh_jinja_rendering;

/* Renders with these variables; `now` is what strftime_now shows. Any thread; several at once may
 * use one template. The caller resets the rendering, also after a failure. LH_ERR_INVALID: the
 * template refuses (the message has its words), or cannot go on; LH_ERR_LIMIT: it goes beyond a
 * bound; LH_ERR_NO_MEMORY. */
lh_status lh_jinja_template_render(const lh_jinja_template *jinja,
                                   const lh_jinja_variable *variables, size_t count,
                                   const struct tm *now, lh_jinja_rendering *rendering,
                                   lh_error *error);
void lh_jinja_rendering_reset(lh_jinja_rendering *rendering);
