/* One number. */
#include "gateway/cli/answer_style.h"

#include <stdlib.h>

lh_status lh_answer_style_check(const lh_answer_style *style, lh_error *error) {
    char *end;
    double temperature = strtod(style->temperature, &end);
    if (end != style->temperature && !*end && temperature >= 0 && temperature <= 2)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "--temperature %.40s is no number from 0 to 2",
                   style->temperature);
}
