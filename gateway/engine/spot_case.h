/* One answer that is being checked: what several computations of it have given, and what follows
 * from that. Each opinion is a list of digests, one of each draw (answer_record.h).
 *
 *   opinions so far                              verdict, or who is asked next
 *   1  the chain A that answered                 another chain B
 *   2  B says the same                           AGREED
 *      B differs                                 a third chain C; where there is none, A again
 *   3  C says what A says, or what B says        WRONG: the other one
 *      C says something else                     UNDECIDED
 *      A does not say what it said before        WRONG: A
 *      A does                                    B again
 *   4  B does not say what it said before        WRONG: B
 *      B does                                    UNDECIDED
 *
 * Sound chains say the same, to the bit, however often they are asked. Pure. Thread: one at a time.
 */
#pragma once

#include "gateway/schedule/answer_record.h"

#define LH_SPOT_OPINIONS_MAX 4u

typedef enum lh_spot_verdict {
    LH_SPOT_OPEN,
    LH_SPOT_AGREED,
    LH_SPOT_WRONG,
    LH_SPOT_UNDECIDED,
    LH_SPOT_DROPPED, /* its chain has changed, or there was no time or memory for it */
    LH_SPOT_VERDICTS
} lh_spot_verdict;

typedef struct lh_spot_opinion {
    uint32_t chain, epoch; /* which chain, and under which epoch it began */
    uint64_t *draws;       /* [record->draw_count] */
} lh_spot_opinion;

typedef struct lh_spot_case {
    lh_answer_record *record;
    int64_t since_us;
    uint32_t tries; /* computations that had to make way */
    uint32_t count; /* opinions, the answer's own first, whose draws are the record's */
    lh_spot_opinion opinions[LH_SPOT_OPINIONS_MAX];
} lh_spot_case;

/* "open", "agreed", "wrong", "undecided", "dropped". */
const char *lh_spot_verdict_name(lh_spot_verdict verdict);

/* An answer of this chain; it owns the record from now on. */
void lh_spot_case_init(lh_spot_case *spot, lh_answer_record *record, uint32_t chain,
                       int64_t now_us);
void lh_spot_case_reset(lh_spot_case *spot);
/* Whether this chain, which can be asked, is to be asked next. has_third: there is a chain beside
 * the two that were asked first. */
bool lh_spot_case_asks(const lh_spot_case *spot, uint32_t chain, bool has_third);
/* Adds an opinion and owns its draws. The case is OPEN. */
void lh_spot_case_add(lh_spot_case *spot, const lh_spot_opinion *opinion);
/* *wrong: which opinion's chain is WRONG. */
lh_spot_verdict lh_spot_case_judge(const lh_spot_case *spot, uint32_t *wrong);
/* The first draw at which two opinions differ; the count of draws: none. */
uint32_t lh_spot_case_difference(const lh_spot_case *spot, uint32_t a, uint32_t b);
