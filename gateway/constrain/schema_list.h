/* Schemas all of which hold for one value: "allOf", keywords beside a "$ref", and two schemas that
 * speak of the same property come to that. Each stands in the list once; what says nothing does
 * not. Thread: the owner's. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define LH_SCHEMA_LIST_MAX 64

typedef struct lh_schema_list {
    const json_t *schemas[LH_SCHEMA_LIST_MAX]; /* [count], in the order in which they came */
    size_t count;
} lh_schema_list;

/* False: the list is full. */
bool lh_schema_list_add(lh_schema_list *list, const json_t *schema);
/* Whether one of them is `false`: no value satisfies all. */
bool lh_schema_list_is_void(const lh_schema_list *list);
