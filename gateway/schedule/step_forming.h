/* Inside the scheduler's forming of steps: step_forming.c asks decode_forming.c, then prefill_forming.c; what both need
 * of it is here, too. */
#pragma once

#include "gateway/schedule/scheduler_state.h"

/* Whether the sequence may share the step: a suspect travels alone. */
bool lh_forming_may_join(const lh_flight *flight, const lh_sequence *sequence);
/* All of its history is sent; the step of this class draws. */
void lh_forming_begin_sampling(lh_scheduler *scheduler, lh_sequence *sequence, lh_step_class step_class);
/* Whether the pipeline takes one more step with rows of this class, of which `depth` may be under way. */
bool lh_forming_has_place(const lh_scheduler *scheduler, lh_step_class step_class, uint32_t depth);

/* Begin a step of their class in a blank record, and add what is to go now: nothing where rows stays 0. */
void lh_forming_fill_decode(lh_scheduler *scheduler, lh_flight *flight);
void lh_forming_fill_prefill(lh_scheduler *scheduler, lh_flight *flight);
