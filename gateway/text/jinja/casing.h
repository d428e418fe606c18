/* upper(), lower(), title() and the like of a text; each character keeps its origin. Thread: the
 * owner's. */
#pragma once

#include "gateway/text/jinja/text.h"

jinja_text jinja_upper(jinja_work *work, jinja_text text);
jinja_text jinja_lower(jinja_work *work, jinja_text text);
/* str.casefold(): alike for all that differ in case alone. */
jinja_text jinja_fold(jinja_work *work, jinja_text text);
jinja_text jinja_capitalize(jinja_work *work, jinja_text text);
jinja_text jinja_swap_case(jinja_work *work, jinja_text text);
/* str.title(): what follows a letter is in lower case. */
jinja_text jinja_title(jinja_work *work, jinja_text text);
/* Jinja's filter: what follows a space, a hyphen or an opening bracket is a word. */
jinja_text jinja_title_words(jinja_work *work, jinja_text text);
/* islower(), isupper(), istitle(): there is a cased character, and all are so. */
bool jinja_all_lower(jinja_text text);
bool jinja_all_upper(jinja_text text);
bool jinja_all_title(jinja_text text);
