/* The plan without an objective (aim.h, LH_GOAL_EVEN): all machines that can have a stage have one,
 * in the order of their sites, then by name, and layers are divided so that the slowest stage is as
 * fast as can be: with a long prompt, for which the last stage computes the head once; among equal
 * splits with a token at a time, where the head counts in full (order_split.h). Machines go by
 * speeds that they measured at their start, and not of stages: so the same machines get the same
 * split, whatever they have computed. Links do not count.
 *
 * With more machines than layers or stages, the fastest serve; where their memory is short, those
 * with the most, fewer and fewer. Each stage has the room for keys and values that the model wants,
 * or half of it, or half of that, where no split has it (kv_need.h).
 *
 * Pure: the same machines give the same plan, in whatever order they stand. Thread: one at a time.
 */
#pragma once

#include "gateway/plan/aim.h"
#include "gateway/plan/layout.h"

/* ---- Machines beside each other ---- */

/* Makes what each machine has measured at its start comparable, and sets its points by that.
 * Measured speeds count where every machine has measured its own, else the number of threads alone
 * does, as that of usual cores. Measured ones that are within a quarter of each other are made the
 * same, so that equal machines get equal shares, whatever the noise was. */
void lh_even_compare_speeds(lh_map_machine *machines, uint32_t count);
/* Sets the sites of machines to numbers that ascend along the chain: those that `order` lists
 * ("home,office"; NULL: none) come first, others by name. sites[count]: the machines' own. */
void lh_even_order_sites(lh_map_machine *machines, const char *const *sites, uint32_t count,
                         const char *order);

/* ---- Splits ---- */

typedef struct lh_even_split lh_even_split;

/* For these machines, or some of them, of which both of the above have been called; model, machines
 * and aim outlive it. LH_ERR_NO_MEMORY. */
lh_status lh_even_split_create(const lh_model_profile *model, const lh_map_machine *machines,
                               uint32_t count, const lh_aim *aim, lh_even_split **split,
                               lh_error *error);
void lh_even_split_destroy(lh_even_split *split);
/* The split over these machines, by their indices. LH_ERR_LIMIT: none fits; the message has the
 * figures. LH_ERR_UNAVAILABLE: there is no machine. */
lh_status lh_even_split_find(lh_even_split *split, const uint32_t *members, uint32_t count,
                             lh_layout *layout, lh_error *error);
/* The same over all machines. */
lh_status lh_even_split_find_all(lh_even_split *split, lh_layout *layout, lh_error *error);
/* The same where machines have changed since another split was made, and are to be
 * disturbed as little as may be: where a spare can take the place of one that is gone, with its
 * very layers, no other has to load anything; that is worth a slowest stage that is not quite as
 * fast as the split could make it. present: as it was, with NOBODY where a machine is gone; without
 * stages: there was none. It is not kept where it has more stages than the aim allows. */
lh_status lh_even_split_revise(lh_even_split *split, const lh_layout *present, lh_layout *layout,
                               lh_error *error);
/* What a layout's slowest stage takes for a long prompt, by which layouts of one model compare.
 * INFINITY: a stage does not fit its machine's memory, or has no room for a page of keys and
 * values. */
double lh_even_split_slowest_us(const lh_even_split *split, const lh_layout *layout);
