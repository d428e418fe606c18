/* Doubling. */
#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

bool lh_growing_array_reserve(void *array_pointer, size_t *capacity, size_t count,
                              size_t element_bytes) {
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity ? *capacity : 16;
    while (wanted < count)
        wanted *= 2;
    void *array; /* copied as bytes: the pointer's own type is unknown here */
    memcpy(&array, array_pointer, sizeof array);
    array = reallocarray(array, wanted, element_bytes);
    if (!array)
        return false;
    memcpy(array_pointer, &array, sizeof array);
    *capacity = wanted;
    return true;
}
