/* What may come back where a trace was asked for: any bytes are a chart or an error, and never a
 * command to the terminal. */
#include "gateway/trace/trace_chart_json.h"

#include <stdlib.h>
#include <string.h>

static void expect_printable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char reason[64];
    lh_chart chart;
    lh_text_buffer out = {0};
    const lh_chart_style style = {.width = size > 0 ? data[0] : 0, .whole = size % 2 == 0};
    lh_chart_parse_error((const char *)data, size, reason, sizeof(reason));
    expect_printable(reason, strlen(reason));
    if (lh_chart_parse((const char *)data, size, &chart, NULL) == LH_OK) {
        if (lh_chart_render(&chart, &style, &out) == LH_OK)
            expect_printable(out.bytes, out.length);
        lh_chart_reset(&chart);
        lh_text_buffer_reset(&out);
    }
    return 0;
}
