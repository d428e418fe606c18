/* One object. */
#include "common/doctor/findings_json.h"

#include "common/json/json_text.h"

#include <string.h>

static json_t *text_or_null(const char *text) {
    return text[0] ? lh_json_text(text, strlen(text)) : json_null();
}

lh_status lh_findings_render_json(const lh_findings *findings, lh_text_buffer *out) {
    json_t *list = json_array();
    for (size_t i = 0; i < findings->count; i++) {
        const lh_finding *f = &findings->list[i];
        list = lh_json_append(
            list, json_pack("{s:s, s:o, s:s, s:o, s:o}", "check", f->check, "subject",
                            text_or_null(f->subject), "verdict", lh_verdict_name(f->verdict),
                            "found", text_or_null(f->found), "to_do", text_or_null(f->to_do)));
    }
    bool is_fine = lh_findings_count(findings, LH_VERDICT_TO_DO) == 0;
    if (findings->is_short || !list) {
        json_decref(list);
        return LH_ERR_NO_MEMORY;
    }
    lh_status status =
        lh_json_render(json_pack("{s:b, s:o}", "fine", (int)is_fine, "findings", list), out);
    return status == LH_OK ? lh_text_buffer_append(out, "\n", 1, NULL) : status;
}
