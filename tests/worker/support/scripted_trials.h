/* A double of worker/control/stage_trials.h, which times nothing: how much time it was given. */
#pragma once

extern double scripted_trials_budget_us; /* of the last call; 0: there was none */
