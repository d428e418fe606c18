/* Machines as a test writes them down, and the even split over them (even_split.h). */
#pragma once

#include "gateway/plan/even_split.h"

#define EVEN_FLEET_MAX 16u

typedef struct even_worker {
    const char *name, *site;
    uint32_t threads;
    uint64_t memory_bytes;
    lh_machine_speed speed; /* comparable */
    uint64_t kv_bytes, first_extra_bytes;
} even_worker;

/* The speed of a machine by its threads. */
#define BY(threads) {1.0 / (threads), 6.0 / (threads)}

/* All zero: nothing has been made. */
typedef struct even_fleet {
    lh_map_machine machines[EVEN_FLEET_MAX];
    const char *sites[EVEN_FLEET_MAX];
    lh_even_split *split;
} even_fleet;

/* In place of the one before. The model and the aim outlive it. */
void even_fleet_make(even_fleet *f, const lh_model_profile *model, const even_worker *workers,
                     uint32_t count, const lh_aim *aim);
void even_fleet_reset(even_fleet *f);
