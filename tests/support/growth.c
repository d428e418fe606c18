/* The least of some tries is the work's own: whatever else the machine does only adds to it. */
#include "tests/support/growth.h"

#include "tests/support/processor_time.h"

#include <stdint.h>
#include <stdio.h>

double growth_of(const char *name, void (*work)(void *context, size_t size), void *context,
                 size_t size) {
    double least[2] = {1e9, 1e9};
    for (int try = 0; try < 3; try++)
        for (int i = 0; i < 2; i++) {
            double begin = processor_time_s();
            work(context, size << 2 * i);
            double took = processor_time_s() - begin;
            least[i] = took < least[i] ? took : least[i];
        }
    printf("%s: %.4f s for %zu, %.4f s for four times as many\n", name, least[0], size, least[1]);
    return least[1] / least[0];
}
