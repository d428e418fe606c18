/* Three columns: verdict, check, words. */
#include "common/doctor/findings_text.h"

#include "common/base/text_page.h"

#define WIDTH_MIN 40u
#define CHECK_AT  8u
#define WORDS_AT  22u

static void put_finding(lh_text_page *p, const lh_finding *finding) {
    static const char *const words[] = {"fine", "unknown", "TO DO"};
    static const char *const colours[] = {"\033[32m", "\033[2m", "\033[1;33m"};
    lh_text_page_colour(p, colours[finding->verdict]);
    lh_text_page_put_cell(p, CHECK_AT, words[finding->verdict]);
    lh_text_page_colour(p, "\033[0m");
    lh_text_page_put_cell(p, WORDS_AT - CHECK_AT, finding->check);
    if (finding->subject[0]) {
        lh_text_page_put_words(p, WORDS_AT, finding->subject);
        lh_text_page_put(p, ":");
    }
    lh_text_page_put_words(p, WORDS_AT, finding->found);
    lh_text_page_break(p);
    if (!finding->to_do[0])
        return;
    lh_text_page_move(p, WORDS_AT - 3);
    lh_text_page_put(p, "-> ");
    lh_text_page_put_words(p, WORDS_AT, finding->to_do);
    lh_text_page_break(p);
}

lh_status lh_findings_render_text(const lh_findings *findings, unsigned width, bool has_colours,
                                  lh_text_buffer *out) {
    lh_text_page p = {
        .out = out, .width = width < WIDTH_MIN ? WIDTH_MIN : width, .has_colours = has_colours};
    for (size_t i = 0; i < findings->count; i++)
        put_finding(&p, &findings->list[i]);
    lh_text_page_put(&p, "%zu fine, %zu unknown, %zu to do\n",
                     lh_findings_count(findings, LH_VERDICT_FINE),
                     lh_findings_count(findings, LH_VERDICT_UNKNOWN),
                     lh_findings_count(findings, LH_VERDICT_TO_DO));
    return findings->is_short ? LH_ERR_NO_MEMORY : p.status;
}
