/* A conversation whose template does not take it, told again with the roles that it does take.
 *
 * Agents speak as the system in the middle of a conversation, or several times at its beginning;
 * some templates raise an error there ("System message must be at the beginning"), know no system
 * at all, or want user and assistant to take turns. What the system says is folded where it stands,
 * and never moved to the beginning: then all that comes before it would change, and no cache would
 * find it again.
 *
 *     system system user assistant user system assistant
 *     \__ joined __/                    \__ of the user, with a mark, joined with what it says
 *
 * Thread: any. */
#pragma once

#include "gateway/text/chat_messages.h"

typedef enum lh_system_fold {
    LH_SYSTEM_FOLD_NONE,  /* as they are */
    LH_SYSTEM_FOLD_LATER, /* those at the beginning are one system message, later ones the user's */
    LH_SYSTEM_FOLD_TURNS, /* the same, and all that users say in a row is one message */
    LH_SYSTEM_FOLD_ALL    /* the same, of a template that knows no system: all are the user's */
} lh_system_fold;

typedef struct lh_folded_messages {
    lh_chat_message *messages; /* [count] */
    size_t count;
    char **texts; /* [text_count]: those that were put together */
    size_t text_count;
    bool ends_folded; /* the last of them was the system's, and is the user's */
} lh_folded_messages;

/* Whether folding makes another conversation of it. */
bool lh_folded_messages_differ(const lh_chat_message *messages, size_t count, lh_system_fold fold);
/* What is folded points into `messages`, which outlive it. LH_ERR_NO_MEMORY. Either way _reset
 * frees what it holds. */
lh_status lh_folded_messages_make(lh_folded_messages *folded, const lh_chat_message *messages,
                                  size_t count, lh_system_fold fold, lh_error *error);
void lh_folded_messages_reset(lh_folded_messages *folded);
