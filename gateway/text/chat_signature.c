/* A GGUF carries its chat template as a Jinja program. We do not run it: its families are few, and
 * a program from a file is one more thing to trust. We recognise it, and must not be fooled by
 * spelling, of which every converter and fine-tune has its own. So the template is brought to one
 * form (chat_form.h), and that is hashed.
 *
 * The one thing that may differ within a family is the system message that ChatML templates put in
 * by default: it is taken out and handed to the caller, with a mark in its place.
 *
 * A template that says the same as a known one in a way that the form does not level is unknown,
 * and refused. */
#include "gateway/text/chat_signature.h"

#include "common/base/digest.h"
#include "gateway/text/chat_form.h"

#include <stdbool.h>
#include <string.h>

/* The plain text between a ChatML system turn's head and end, if the template has one. */
static bool find_system(const lh_text_buffer *form, const char **system, size_t *length) {
    static const char head[] = "<|im_start|>system\n", tail[] = "<|im_end|>";
    if (form->length == 0)
        return false;
    const char *at = form->bytes, *end = at + form->length;
    while ((at = memmem(at, (size_t)(end - at), head, sizeof head - 1))) {
        at += sizeof head - 1;
        const char *stop = at;
        while (stop < end && (uint8_t)*stop >= LH_CHAT_FORM_MARKS_END)
            stop++;
        const char *close = memmem(at, (size_t)(stop - at), tail, sizeof tail - 1);
        if (close && close > at) {
            *system = at;
            *length = (size_t)(close - at);
            return true;
        }
    }
    return false;
}

static lh_status hash_form(const lh_text_buffer *form, uint64_t *hash, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status = lh_sha256_digest(form->bytes, form->length, digest);
    if (status)
        return lh_fail(error, status, "no memory for a chat template's signature");
    *hash = 0;
    for (size_t i = 0; i < 8; i++)
        *hash = *hash << 8 | digest[i];
    return LH_OK;
}

/* The form with a mark in every place of the system message. */
static lh_status mark_system(const lh_text_buffer *form, const char *system, size_t length,
                             lh_text_buffer *marked, lh_error *error) {
    const char *at = form->bytes, *end = at + form->length;
    lh_status status = LH_OK;
    for (const char *next; !status && (next = memmem(at, (size_t)(end - at), system, length));
         at = next + length)
        if (!(status = lh_text_buffer_append(marked, at, (size_t)(next - at), error)))
            status = lh_text_buffer_append(marked, &(char){LH_CHAT_FORM_SYSTEM}, 1, error);
    return status ? status : lh_text_buffer_append(marked, at, (size_t)(end - at), error);
}

static lh_status sign(const lh_text_buffer *form, lh_chat_signature *signature, lh_error *error) {
    lh_text_buffer marked = {0};
    const char *system;
    size_t length;
    if (!find_system(form, &system, &length))
        return hash_form(form, &signature->hash, error);
    lh_status status = mark_system(form, system, length, &marked, error);
    if (!status)
        status = lh_text_buffer_append(&signature->system, system, length, error);
    if (!status)
        status = hash_form(&marked, &signature->hash, error);
    lh_text_buffer_reset(&marked);
    return status;
}

lh_status lh_chat_signature_read(const char *text, size_t length, lh_chat_signature *signature,
                                 lh_error *error) {
    *signature = (lh_chat_signature){0};
    if (length > LH_CHAT_TEMPLATE_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "the chat template has %zu bytes, more than %u", length,
                       LH_CHAT_TEMPLATE_BYTES_MAX);
    lh_text_buffer form = {0};
    lh_status status = lh_chat_form_read(text, length, &form, error);
    if (!status)
        status = sign(&form, signature, error);
    lh_text_buffer_reset(&form);
    return status;
}
