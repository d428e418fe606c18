/* Room in arrays that grow by doubling. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `count` elements in all: *array_pointer is a malloc'd array (or NULL) with room
 * for *capacity. False: no memory, and the array is as it was. array_pointer: the address of the
 * array's pointer, of whatever type. */
bool lh_growing_array_reserve(void *array_pointer, size_t *capacity, size_t count,
                              size_t element_bytes);
