/* What is wrong with the results of a step, for which the chain's last worker answers. */
#pragma once

typedef enum lh_result_fault {
    LH_RESULTS_FINE,
    LH_RESULTS_BAD,    /* they cannot be, or cannot be read */
    LH_RESULTS_MISSING /* the step was taken without them */
} lh_result_fault;
