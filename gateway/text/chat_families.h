/* The chat formats that we render, as data: what stands before and after a message of each role,
 * and which orders of roles the format takes. Static tables: any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes in a turn's texts that stand for something else. */
#define LH_CHAT_BOS  "\1"
#define LH_CHAT_EOS  "\2"
#define LH_CHAT_ROLE "\3"

typedef struct lh_chat_turn {
    const char *before, *after; /* of the content; NULL: the format has no such turn */
} lh_chat_turn;

typedef enum lh_chat_system {
    LH_CHAT_SYSTEM_ANYWHERE, /* a turn like any other */
    /* the first message's text, `first_system` around it, stands after the opening; so does
     * `first_system` where there is none. Later ones are turns */
    LH_CHAT_SYSTEM_HEAD,
    /* the first message's, so wrapped, begins the first user's content */
    LH_CHAT_SYSTEM_IN_FIRST_USER,
    LH_CHAT_SYSTEM_IN_LAST_USER /* ... the last user's content, which must end the conversation */
} lh_chat_system;

typedef struct lh_chat_family {
    const char *name;
    const char *opening;                        /* before the first message */
    lh_chat_turn system, user, assistant, tool; /* without texts: such a message is refused */
    const char *generation;                     /* after the last message */
    lh_chat_system system_place;
    lh_chat_turn first_system;
    bool trims;              /* content without the white space around it */
    bool keeps_system;       /* ... but for a system message within a user's turn */
    bool thinks;             /* earlier answers are without their thoughts (chat_thinking.h) */
    bool skips_empty_system; /* a system message without content has no turn */
    bool joins_tools;        /* tool messages in a row share one user's turn of ChatML */
    /* Refusals in the templates' own words. */
    /* user and others must take turns, user first; NULL: they need not */
    const char *alternation;
    const char *leading_system; /* the first message must not be a system message; NULL: it may */
    /* for turns without texts; NULL: the template would drop them in silence */
    const char *other_roles;
} lh_chat_family;

/* The family of a signature (chat_signature.h), or NULL. */
const lh_chat_family *lh_chat_family_find(uint64_t signature);

/* The families, by index, for messages that list them; NULL after the last. */
const lh_chat_family *lh_chat_family_at(size_t index);
