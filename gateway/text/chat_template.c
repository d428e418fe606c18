/* A conversation becomes a list of segments: the template's own texts, and between them the
 * messages' contents, which point into the caller's messages. The tokenizer takes the list and
 * looks for special tokens in the former only. */
#include "gateway/text/chat_template.h"

#include "common/base/utf8.h"
#include "gateway/text/chat_families.h"
#include "gateway/text/chat_thinking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lh_chat_template {
    const lh_chat_family *family;
    lh_text_buffer system; /* put in where the first message is none; empty: nothing is */
};

static lh_status refuse_unknown(uint64_t signature, lh_error *error) {
    char list[LH_ERROR_MESSAGE_BYTES] = "";
    size_t length = 0;
    const lh_chat_family *family;
    for (size_t i = 0; (family = lh_chat_family_at(i)) && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "",
                                   family->name);
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "the chat template (signature %016llx) is of no family that is known here (%s); "
                   "completions without a template work",
                   (unsigned long long)signature, list);
}

lh_status lh_chat_template_of_signature(const lh_chat_signature *signature,
                                        lh_chat_template **chat_template, lh_error *error) {
    const lh_chat_family *family = lh_chat_family_find(signature->hash);
    if (!family)
        return refuse_unknown(signature->hash, error);
    lh_chat_template *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a chat template");
    made->family = family;
    lh_status status = lh_text_buffer_append(&made->system, signature->system.bytes,
                                             signature->system.length, error);
    if (status) {
        lh_chat_template_destroy(made);
        return status;
    }
    *chat_template = made;
    return LH_OK;
}

lh_status lh_chat_template_parse(const char *text, size_t length, lh_chat_template **chat_template,
                                 lh_error *error) {
    lh_chat_signature signature;
    lh_status status = lh_chat_signature_read(text, length, &signature, error);
    if (!status)
        status = lh_chat_template_of_signature(&signature, chat_template, error);
    lh_text_buffer_reset(&signature.system);
    return status;
}

lh_status lh_chat_template_create(const lh_gguf *gguf, lh_chat_template **chat_template,
                                  lh_error *error) {
    lh_text text;
    lh_status status = lh_gguf_get_text(gguf, "tokenizer.chat_template", &text, error);
    return status ? status : lh_chat_template_parse(text.bytes, text.length, chat_template, error);
}

void lh_chat_template_destroy(lh_chat_template *chat_template) {
    if (!chat_template)
        return;
    lh_text_buffer_reset(&chat_template->system);
    free(chat_template);
}

const char *lh_chat_template_family(const lh_chat_template *chat_template) {
    return chat_template->family->name;
}

/* One rendering. */
typedef struct script {
    const lh_chat_template *chat_template;
    const char *bos, *eos;
    size_t bos_length, eos_length;
    lh_text_segment *segments;
    size_t count, capacity;
    lh_error *error;
} script;

static lh_status add(script *out, const char *text, size_t length, bool parse_special) {
    if (length == 0)
        return LH_OK;
    if (out->count == out->capacity) {
        size_t capacity = out->capacity ? out->capacity * 2 : 32;
        lh_text_segment *segments = realloc(out->segments, capacity * sizeof *segments);
        if (!segments)
            return lh_fail(out->error, LH_ERR_NO_MEMORY, "no memory for a conversation");
        out->segments = segments;
        out->capacity = capacity;
    }
    out->segments[out->count++] = (lh_text_segment){text, length, parse_special};
    return LH_OK;
}

/* A text of the family, of `length` bytes, with bos, eos and role in their places. */
static lh_status add_own_part(script *out, const char *text, size_t length, const char *role) {
    const char *end = text + length;
    lh_status status = LH_OK;
    while (text < end && !status) {
        size_t plain = strcspn(text, LH_CHAT_BOS LH_CHAT_EOS LH_CHAT_ROLE);
        if (plain > (size_t)(end - text))
            plain = (size_t)(end - text);
        status = add(out, text, plain, true);
        text += plain;
        if (status || text == end)
            break;
        if (*text == *LH_CHAT_BOS)
            status = add(out, out->bos, out->bos_length, true);
        else if (*text == *LH_CHAT_EOS)
            status = add(out, out->eos, out->eos_length, true);
        else
            status = add(out, role, strlen(role), false);
        text++;
    }
    return status;
}

static lh_status add_own(script *out, const char *text, const char *role) {
    return add_own_part(out, text, strlen(text), role);
}

/* What Python's str.strip() takes away. */
static bool is_space(uint32_t character) {
    return (character >= 9 && character <= 13) || (character >= 28 && character <= 32) ||
           character == 0x85 || character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
           character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

static lh_text strip_left(lh_text text) {
    const char *at = text.bytes, *end = text.bytes + text.length;
    while (at < end) {
        const char *next = at;
        if (!is_space(lh_utf8_decode(&next)))
            break;
        at = next;
    }
    return (lh_text){at, (size_t)(end - at)};
}

static lh_text strip_right(lh_text text) {
    while (text.length > 0) {
        size_t last = text.length - 1;
        while (last > 0 && ((uint8_t)text.bytes[last] & 0xC0) == 0x80)
            last--;
        const char *at = text.bytes + last;
        if (!is_space(lh_utf8_decode(&at)))
            break;
        text.length = last;
    }
    return text;
}

static lh_status add_content(script *out, const lh_chat_message *message) {
    lh_text text = {message->content, message->content_length};
    if (out->chat_template->family->trims)
        text = strip_right(strip_left(text));
    return add(out, text.bytes, text.length, false);
}

static const lh_chat_turn *turn_of(const lh_chat_family *family, const char *role) {
    if (strcmp(role, "system") == 0)
        return &family->system;
    if (strcmp(role, "user") == 0)
        return &family->user;
    if (strcmp(role, "assistant") == 0)
        return &family->assistant;
    return strcmp(role, "tool") == 0 ? &family->tool : NULL;
}

static bool is_role(const lh_chat_message *message, const char *role) {
    return strcmp(message->role, role) == 0;
}

/* A ChatML "tool" turn: the first of a row opens a user's turn, the last closes it. */
static lh_status add_tool_turn(script *out, const lh_chat_message *messages, size_t count,
                               size_t i) {
    const lh_chat_family *family = out->chat_template->family;
    lh_status status = LH_OK;
    if (i == 0 || !is_role(&messages[i - 1], "tool"))
        status = add_own(out, "<|im_start|>user", "");
    if (status || (status = add_own(out, family->tool.before, "")) ||
        (status = add_content(out, &messages[i])) ||
        (status = add_own(out, family->tool.after, "")))
        return status;
    if (i + 1 == count || !is_role(&messages[i + 1], "tool"))
        status = add_own(out, "<|im_end|>\n", "");
    return status;
}

/* An answer of a thinking model. After the user's last question it keeps its thought; the last
 * message gets one, even an empty one. */
static lh_status add_thinking_turn(script *out, const lh_chat_message *messages, size_t count,
                                   size_t i) {
    const lh_chat_turn *turn = &out->chat_template->family->assistant;
    lh_chat_thinking said =
        lh_chat_thinking_split((lh_text){messages[i].content, messages[i].content_length});
    bool recent = i > lh_chat_thinking_last_query(messages, count);
    lh_status status = add_own(out, turn->before, "assistant");
    if (!status && recent && (i + 1 == count || said.thought.length > 0)) {
        said.answer = lh_chat_thinking_strip(said.answer);
        if ((status = add_own(out, "<think>\n", "")) ||
            (status = add(out, said.thought.bytes, said.thought.length, false)))
            return status;
        status = add_own(out, "\n</think>\n\n", "");
    }
    if (status || (status = add(out, said.answer.bytes, said.answer.length, false)))
        return status;
    return add_own(out, turn->after, "assistant");
}

static lh_status add_turn(script *out, const lh_chat_message *messages, size_t count, size_t i) {
    const lh_chat_family *family = out->chat_template->family;
    const char *role = messages[i].role;
    const lh_chat_turn *turn = turn_of(family, role);
    if (family->joins_tools && is_role(&messages[i], "tool"))
        return add_tool_turn(out, messages, count, i);
    if (family->thinks && is_role(&messages[i], "assistant"))
        return add_thinking_turn(out, messages, count, i);
    if (family->skips_empty_system && is_role(&messages[i], "system") &&
        messages[i].content_length == 0)
        return LH_OK;
    lh_status status;
    if ((status = add_own(out, turn->before, role)) || (status = add_content(out, &messages[i])))
        return status;
    return add_own(out, turn->after, role);
}

/* A user's turn with the system message in it. Most templates that strip do so with the two put
 * together. */
static lh_status add_user_turn_with_system(script *out, const lh_chat_message *system,
                                           const lh_chat_message *user) {
    const lh_chat_family *family = out->chat_template->family;
    lh_text content = {user->content, user->content_length};
    lh_text wrap = {family->first_system.after, strlen(family->first_system.after)};
    if (family->trims && family->keeps_system) {
        content = strip_right(strip_left(content));
    } else if (family->trims) {
        content = strip_right(content);
        wrap = content.length ? wrap : strip_right(wrap);
    }
    lh_status status;
    if ((status = add_own(out, family->user.before, "user")) ||
        (status = add_own(out, family->first_system.before, "")) ||
        (status = add(out, system->content, system->content_length, false)) ||
        (status = add_own_part(out, wrap.bytes, wrap.length, "")) ||
        (status = add(out, content.bytes, content.length, false)))
        return status;
    return add_own(out, family->user.after, "user");
}

static lh_status refuse_role(const lh_chat_family *family, const lh_chat_message *message, size_t i,
                             lh_error *error) {
    if (!turn_of(family, message->role))
        return lh_fail(error, LH_ERR_INVALID, "messages[%zu]: role \"%.32s\" is not known", i,
                       message->role);
    if (family->other_roles)
        return lh_fail(error, LH_ERR_INVALID, "messages[%zu]: %s", i, family->other_roles);
    return lh_fail(error, LH_ERR_INVALID,
                   "messages[%zu]: this model's chat template (%s) has no place for role \"%s\"", i,
                   family->name, message->role);
}

/* Roles and their order, as the template checks them, from messages[first] on. */
static lh_status check_roles(const lh_chat_family *family, const lh_chat_message *messages,
                             size_t count, size_t first, lh_error *error) {
    for (size_t i = first; i < count; i++) {
        const lh_chat_turn *turn = turn_of(family, messages[i].role);
        if (turn && family->alternation && is_role(&messages[i], "user") != ((i - first) % 2 == 0))
            return lh_fail(error, LH_ERR_INVALID, "messages[%zu]: %s", i, family->alternation);
        if (!turn || !turn->before)
            return refuse_role(family, &messages[i], i, error);
    }
    return LH_OK;
}

/* Does the first message's text stand elsewhere than in a turn of its own? */
static bool folds_system(const lh_chat_family *family, const lh_chat_message *messages) {
    return family->system_place != LH_CHAT_SYSTEM_ANYWHERE && is_role(&messages[0], "system");
}

static lh_status check(const lh_chat_family *family, const lh_chat_message *messages, size_t count,
                       lh_error *error) {
    if (count == 0)
        return lh_fail(error, LH_ERR_INVALID, "a conversation needs at least one message");
    if (family->leading_system && is_role(&messages[0], "system"))
        return lh_fail(error, LH_ERR_INVALID, "messages[0]: %s", family->leading_system);
    size_t first = folds_system(family, messages) ? 1 : 0;
    lh_status status = check_roles(family, messages, count, first, error);
    if (status || first == 0 || family->system_place == LH_CHAT_SYSTEM_HEAD)
        return status;
    size_t carrier = family->system_place == LH_CHAT_SYSTEM_IN_FIRST_USER ? 1 : count - 1;
    if (carrier >= count || !is_role(&messages[carrier], "user"))
        return lh_fail(error, LH_ERR_INVALID,
                       "messages[0]: this model's chat template (%s) puts the system message into "
                       "the %s user's message, and there is none",
                       family->name,
                       family->system_place == LH_CHAT_SYSTEM_IN_FIRST_USER ? "first" : "closing");
    return LH_OK;
}

static lh_status add_default_system(script *out) {
    const lh_text_buffer *system = &out->chat_template->system;
    const lh_chat_turn *turn = &out->chat_template->family->system;
    lh_status status;
    if ((status = add_own(out, turn->before, "system")) ||
        (status = add(out, system->bytes, system->length, true)))
        return status;
    return add_own(out, turn->after, "system");
}

/* What comes before the turns: the opening, and a system message that the template puts there. */
static lh_status add_opening(script *out, const lh_chat_message *messages) {
    const lh_chat_family *family = out->chat_template->family;
    lh_status status = add_own(out, family->opening, "");
    if (!status && family->system_place == LH_CHAT_SYSTEM_HEAD) {
        if ((status = add_own(out, family->first_system.before, "")) ||
            (folds_system(family, messages) && (status = add_content(out, &messages[0]))))
            return status;
        status = add_own(out, family->first_system.after, "");
    }
    if (!status && out->chat_template->system.length > 0 && !is_role(&messages[0], "system"))
        status = add_default_system(out);
    return status;
}

static lh_status compose(script *out, const lh_chat_message *messages, size_t count) {
    const lh_chat_family *family = out->chat_template->family;
    lh_status status = check(family, messages, count, out->error);
    for (size_t i = 0; i < count && !status; i++)
        if (lh_utf8_valid_prefix(messages[i].content, messages[i].content_length) <
            messages[i].content_length)
            status =
                lh_fail(out->error, LH_ERR_MALFORMED, "messages[%zu]: the content is not UTF-8", i);
    if (status || (status = add_opening(out, messages)))
        return status;
    size_t first = folds_system(family, messages) ? 1 : 0, carrier = SIZE_MAX;
    if (first && family->system_place == LH_CHAT_SYSTEM_IN_FIRST_USER)
        carrier = 1;
    if (first && family->system_place == LH_CHAT_SYSTEM_IN_LAST_USER)
        carrier = count - 1;
    for (size_t i = first; i < count && !status; i++)
        status = i == carrier ? add_user_turn_with_system(out, &messages[0], &messages[i])
                              : add_turn(out, messages, count, i);
    return status ? status : add_own(out, family->generation, "");
}

lh_status lh_chat_template_render_text(const lh_chat_template *chat_template, const char *bos,
                                       const char *eos, const lh_chat_message *messages,
                                       size_t count, lh_text_buffer *text, lh_error *error) {
    script out = {.chat_template = chat_template,
                  .bos = bos,
                  .eos = eos,
                  .bos_length = strlen(bos),
                  .eos_length = strlen(eos),
                  .error = error};
    lh_status status = compose(&out, messages, count);
    for (size_t i = 0; i < out.count && !status; i++)
        status = lh_text_buffer_append(text, out.segments[i].text, out.segments[i].length, error);
    free(out.segments);
    return status;
}

/* The text of a token that may be absent. */
static void name_of(const lh_tokenizer *tokenizer, int64_t token, const char **text,
                    size_t *length) {
    *text = "";
    *length = 0;
    if (token >= 0)
        (void)lh_tokenizer_token_name(tokenizer, (uint32_t)token, text, length);
}

/* Does the conversation begin with the text of bos? */
static bool begins_with_bos(const script *out) {
    return out->bos_length > 0 && out->count > 0 && out->segments[0].parse_special &&
           out->segments[0].length >= out->bos_length &&
           memcmp(out->segments[0].text, out->bos, out->bos_length) == 0;
}

lh_status lh_chat_template_render(const lh_chat_template *chat_template,
                                  const lh_tokenizer *tokenizer, const lh_chat_message *messages,
                                  size_t count, lh_tokens *tokens, lh_error *error) {
    script out = {.chat_template = chat_template, .error = error};
    name_of(tokenizer, lh_tokenizer_bos(tokenizer), &out.bos, &out.bos_length);
    name_of(tokenizer, lh_tokenizer_eos(tokenizer), &out.eos, &out.eos_length);
    lh_status status = compose(&out, messages, count);
    if (!status && lh_tokenizer_adds_bos(tokenizer) && !begins_with_bos(&out))
        status = lh_tokens_push(tokens, (uint32_t)lh_tokenizer_bos(tokenizer), error);
    if (!status)
        status = lh_tokenizer_encode_segments(tokenizer, out.segments, out.count, tokens, error);
    free(out.segments);
    return status;
}
