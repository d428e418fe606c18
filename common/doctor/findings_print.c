/* One text, written at once. */
#include "common/doctor/findings_print.h"

#include "common/base/terminal.h"
#include "common/doctor/findings_json.h"
#include "common/doctor/findings_text.h"

#include <stdio.h>

#define WIDTH_DEFAULT 80u /* where nobody knows how wide the terminal is */

lh_status lh_findings_print(const lh_findings *findings, bool as_json, lh_error *error) {
    lh_text_buffer text = {0};
    lh_status status = as_json ? lh_findings_render_json(findings, &text)
                               : lh_findings_render_text(findings, lh_terminal_width(WIDTH_DEFAULT),
                                                         lh_terminal_wants_colours(), &text);
    if (status != LH_OK)
        lh_fail(error, status, "no memory for what was found");
    else
        status = lh_text_buffer_print(&text, error);
    lh_text_buffer_reset(&text);
    return status;
}
