/* Two maxima and a sum. */
#include "gateway/cli/bottleneck.h"

#include <stdio.h>
#include <string.h>

double lh_bottleneck_stage_ms(const lh_document_stage *stage) {
    return stage->rows_64_ms;
}

double lh_bottleneck_link_ms(const lh_document_link *link) {
    return link->rate > 0 ? link->row_bytes * LH_BOTTLENECK_ROWS / link->rate / 1000 : 0;
}

lh_bottleneck lh_bottleneck_find(const lh_document_chain *chain) {
    lh_bottleneck b = {.kind = LH_BOTTLENECK_UNKNOWN};
    double farthest_ms = 0;
    if (!chain->is_measured || chain->stage_count == 0)
        return b;
    for (size_t i = 0; i < chain->stage_count; i++) {
        const lh_document_stage *stage = &chain->stages[i];
        double busy_ms = lh_bottleneck_stage_ms(stage);
        b.compute_ms += stage->row_ms + stage->draw_ms;
        if (busy_ms > b.stage_ms) {
            b.stage_ms = busy_ms;
            b.slowest_stage = i;
        }
    }
    for (size_t i = 0; i < chain->link_count; i++) {
        const lh_document_link *link = &chain->links[i];
        double busy_ms = lh_bottleneck_link_ms(link);
        if (busy_ms > b.link_ms) {
            b.link_ms = busy_ms;
            b.slowest_link = i;
        }
        if (link->delay_ms > farthest_ms) {
            farthest_ms = link->delay_ms;
            b.farthest_link = i;
        }
    }
    b.way_ms = chain->token_ms > b.compute_ms ? chain->token_ms - b.compute_ms : 0;
    bool is_link = b.link_ms > b.stage_ms;
    b.kind = is_link ? LH_BOTTLENECK_LINK : LH_BOTTLENECK_STAGE;
    b.index = is_link ? b.slowest_link : b.slowest_stage;
    b.busy_ms = is_link ? b.link_ms : b.stage_ms;
    return b;
}

/* "worker-1 > worker-2" */
#define LINK_NAME_BYTES (2 * LH_NAME_BYTES + 8)

static void name_link(const lh_document_link *link, char text[LINK_NAME_BYTES]) {
    snprintf(text, LINK_NAME_BYTES, "%s > %s", link->from, link->to);
}

void lh_bottleneck_tell_prompts(const lh_document_chain *chain, const lh_bottleneck *b,
                                char text[LH_BOTTLENECK_TEXT_BYTES]) {
    char link[LINK_NAME_BYTES];
    text[0] = '\0';
    if (b->kind == LH_BOTTLENECK_UNKNOWN)
        return;
    const lh_document_stage *stage = &chain->stages[b->slowest_stage];
    if (chain->link_count > 0)
        name_link(&chain->links[b->slowest_link], link);
    else
        snprintf(link, sizeof link, "none");
    if (b->kind == LH_BOTTLENECK_STAGE) {
        snprintf(text, LH_BOTTLENECK_TEXT_BYTES,
                 "Prompts wait longest for %s (layers %u-%u): %.1f ms for %d rows. The busiest "
                 "link, %s, takes %.1f.",
                 stage->worker, stage->first_layer, stage->last_layer ? stage->last_layer - 1 : 0,
                 b->stage_ms, LH_BOTTLENECK_ROWS, link, b->link_ms);
        return;
    }
    const char *wire = chain->links[b->slowest_link].wire;
    snprintf(text, LH_BOTTLENECK_TEXT_BYTES,
             "Prompts wait longest for the link %s: %.1f ms for %d rows at %.1f Mbit/s. The "
             "busiest stage, %s, takes %.1f.%s",
             link, b->link_ms, LH_BOTTLENECK_ROWS, chain->links[b->slowest_link].rate * 8,
             stage->worker, b->stage_ms,
             strcmp(wire, "f32") == 0 ? " --wire f16 would halve the link's bytes." : "");
}

void lh_bottleneck_tell_stream(const lh_document_chain *chain, const lh_bottleneck *b,
                               char text[LH_BOTTLENECK_TEXT_BYTES]) {
    char link[LINK_NAME_BYTES];
    text[0] = '\0';
    if (b->kind == LH_BOTTLENECK_UNKNOWN || !(chain->token_ms > 0))
        return;
    int length = snprintf(text, LH_BOTTLENECK_TEXT_BYTES,
                          "A single stream's token takes %.1f ms: %.1f at the stages, %.1f on the "
                          "links",
                          chain->token_ms, b->compute_ms, b->way_ms);
    if (chain->link_count > 0 && chain->links[b->farthest_link].delay_ms >= 0.1) {
        name_link(&chain->links[b->farthest_link], link);
        snprintf(text + length, LH_BOTTLENECK_TEXT_BYTES - (size_t)length,
                 ", of which %s is %.1f one way", link, chain->links[b->farthest_link].delay_ms);
    }
    size_t used = strlen(text);
    snprintf(text + used, LH_BOTTLENECK_TEXT_BYTES - used, ".");
}
