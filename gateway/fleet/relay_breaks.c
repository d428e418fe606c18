/* A count, and what comes of it. */
#include "gateway/fleet/relay_breaks.h"

#include "common/base/log.h"

#include <stdio.h>

/* Sooner than sequences are given up (gateway/schedule/recovery.c), and more than a relay's restart
 * causes. */
#define BREAKS_MAX 3u
/* A chain that breaks with each step does so once a second. */
#define IN_A_ROW_US 10000000

static bool has_relay(const lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].way.via[0])
            return true;
    return false;
}

static void pass_over(const lh_chain_stage *stage, lh_relays *relays, int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    snprintf(reason, sizeof reason, "chains through relay %s break again and again",
             stage->way.via);
    const int64_t pause_us = lh_relays_pass_over(relays, stage->way.via, reason, now_us);
    lh_log(LH_LOG_WARN, "fleet", "a relay is not used relay=%s worker=%s for_s=%lld reason=\"%s\"",
           stage->way.via, stage->name, (long long)(pause_us / 1000000), reason);
}

void lh_relay_breaks_note(lh_relay_breaks *breaks, const lh_chain *chain, lh_relays *relays,
                          int64_t now_us) {
    if (!relays || !has_relay(chain))
        return;
    breaks->count = now_us - breaks->last_us < IN_A_ROW_US ? breaks->count + 1 : 1;
    breaks->last_us = now_us;
    if (breaks->count < BREAKS_MAX)
        return;
    breaks->count = 0;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (chain->stages[i].way.via[0])
            pass_over(&chain->stages[i], relays, now_us);
}
